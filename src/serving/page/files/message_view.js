// How turns of the conversation look.  Each view has a `node`; an answer's is updated while it streams.

import { answerFigures, reasoningTitle } from './answer_figures.js';
import { button, element, newId } from './dom.js';
import { copyButton, renderMarkdown } from './markdown.js';
import { toolCallsView } from './tool_call_view.js';

export class UserView {
  // onEdit(text): the turn gets another text and is sent again.
  constructor(turn, onEdit) {
    this.turn = turn;
    this.onEdit = onEdit;
    this.node = element('article', { className: 'turn user', 'aria-label': 'You' });
    this.show();
  }

  show() {
    this.node.replaceChildren(
      element('div', { className: 'bubble' }, this.turn.content),
      element('div', { className: 'turn-buttons' },
        button('Edit', () => this.edit()), copyButton(() => this.turn.content, 'Copy message')));
  }

  edit() {
    const id = newId('edit');
    const field = element('textarea', { id, value: this.turn.content, rows: Math.min(this.turn.content.split('\n').length + 1, 12) });
    const cancel = () => {
      this.show();
      this.node.querySelector('button').focus();
    };
    const send = () => field.value.trim() !== '' && this.onEdit(field.value);
    field.addEventListener('keydown', (event) => {
      if (event.isComposing) return;
      if (event.key === 'Enter' && !event.shiftKey) send();
      else if (event.key === 'Escape') cancel();
      else return;
      event.preventDefault();
      event.stopPropagation();
    });
    this.node.replaceChildren(
      element('label', { for: id, className: 'hidden-text' }, 'Edit the message'), field,
      element('div', { className: 'turn-buttons' },
        button('Cancel', cancel), button('Send again', send, 'primary')));
    field.focus();
  }
}

export class ToolResultView {
  constructor(turn, name) {
    this.turn = turn;
    this.node = element('article', { className: 'turn tool', 'aria-label': `Result of ${name}` },
      element('p', { className: 'tool-name' }, 'Result of ', element('code', {}, name)),
      element('pre', { tabIndex: 0 }, turn.content));
  }
}

export class AnswerView {
  // actions: {regenerate(), toolResults(texts)}
  constructor(turn, actions) {
    this.turn = turn;
    this.actions = actions;
    this.reasoningTitle = element('summary');
    this.reasoningText = element('div', { className: 'markdown' });
    this.reasoning = element('details', { className: 'reasoning', hidden: true }, this.reasoningTitle, this.reasoningText);
    this.content = element('div', { className: 'markdown' });
    this.waiting = element('p', { className: 'waiting', 'aria-hidden': 'true' }, element('i'), element('i'), element('i'));
    this.calls = element('div');
    this.end = element('div');
    this.node = element('article', { className: 'turn answer', 'aria-label': 'Answer' },
      this.reasoning, this.content, this.calls, this.waiting, this.end);
  }

  // streaming: more will come.  last: no turn follows.
  update(streaming, last) {
    const { turn } = this;
    this.node.setAttribute('aria-busy', String(streaming));
    this.reasoning.hidden = turn.reasoning === '';
    this.reasoningTitle.textContent = reasoningTitle(turn, streaming);
    renderMarkdown(this.reasoningText, turn.reasoning);
    renderMarkdown(this.content, turn.content);
    this.waiting.hidden = !streaming || turn.content !== '';
    const wanted = !streaming && last && turn.finish === 'tool_calls';
    this.calls.replaceChildren(...(turn.calls.length === 0 ? []
      : [toolCallsView(turn.calls, wanted ? (texts) => this.actions.toolResults(texts) : null)]));
    this.end.replaceChildren(...(streaming ? [] : this.endNodes()));
  }

  endNodes() {
    const { turn } = this;
    const nodes = [];
    if (turn.failure) {
      nodes.push(element('div', { className: 'failure', role: 'alert' },
        element('p', {}, element('strong', {}, turn.failure.message)),
        element('p', {}, turn.failure.advice),
        button('Try again', () => this.actions.regenerate(), 'primary')));
    }
    const figures = answerFigures(turn).map((figure) => element('span', {}, figure));
    nodes.push(element('div', { className: 'figures' }, ...(turn.failure ? [] : figures)));
    const buttons = element('div', { className: 'turn-buttons' });
    if (turn.content !== '') buttons.append(copyButton(() => turn.content, 'Copy answer'));
    if (!turn.failure) buttons.append(button('Regenerate', () => this.actions.regenerate()));
    nodes.push(buttons);
    return nodes;
  }
}

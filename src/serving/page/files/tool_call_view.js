// The calls of an answer: name and arguments of each, and fields for their results.

import { announce, button, element, newId } from './dom.js';
import { codeBlock } from './markdown.js';
import { prettyJson } from './tools_text.js';

// results: null while none are wanted; otherwise onResults(texts) is called with one text for each call.
export function toolCallsView(calls, onResults) {
  const fields = [];
  const cards = calls.map((call) => {
    const card = element('section', { className: 'tool-call', 'aria-label': `Call of ${call.name}` },
      element('p', { className: 'tool-name' }, 'Calls ', element('code', {}, call.name)),
      codeBlock(prettyJson(call.arguments), 'arguments'));
    if (onResults) {
      const id = newId('result');
      const field = element('textarea', { id, rows: 2, spellcheck: false, placeholder: 'What the tool returns' });
      fields.push(field);
      card.append(element('label', { for: id }, `Result of ${call.name}`), field);
    }
    return card;
  });
  const view = element('div', { className: 'tool-calls' }, ...cards);
  if (onResults) {
    view.append(button(calls.length === 1 ? 'Send result' : 'Send results', () => {
      const empty = fields.find((field) => field.value.trim() === '');
      if (empty) {
        announce('Enter the result of each call.');
        empty.focus();
      } else {
        onResults(fields.map((field) => field.value));
      }
    }, 'primary'));
  }
  return view;
}

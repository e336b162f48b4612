// The chat: what happens to the conversation when a person does something, and the views of its turns.

import { emptyAnswer, receiveAnswer } from './answer.js';
import { firstModel } from './api.js';
import { Composer } from './composer.js';
import { Conversation } from './conversation.js';
import { announce, byId, element, saveFile } from './dom.js';
import { Failure } from './failure.js';
import { AnswerView, ToolResultView, UserView } from './message_view.js';
import { requestBody } from './request.js';
import { Settings } from './settings.js';
import { keep, kept } from './storage.js';

const REDRAW_MILLISECONDS = 40;

export class Chat {
  #model = '';
  #views = [];
  #abort = null;   // of the answer that comes
  #redraw = null;  // timer

  constructor() {
    const { turns, values } = kept();
    this.conversation = Conversation.fromJson(turns);
    this.list = byId('message-list');
    this.scroller = byId('messages');
    this.composer = new Composer({ send: (text) => this.#send(text), stop: () => this.stop() });
    this.settings = new Settings(() => this.#settingsChanged(), () => this.#keep());
    this.settings.setValues(values);
    byId('export-button').addEventListener('click', () => this.#export());
    byId('new-button').addEventListener('click', () => this.#begin());
    this.#show();
    this.composer.focus();
  }

  // Whose name the requests carry.  Without an answer it is asked for again with the next message.
  async findModel() {
    if (this.#model === '') this.#model = await firstModel();
    byId('model').textContent = this.#model;
  }

  get running() {
    return this.#abort !== null;
  }

  stop() {
    this.#abort?.abort();
  }

  #begin() {
    this.stop();
    this.conversation = new Conversation();
    this.#views = [];
    this.list.replaceChildren();
    this.#show();
    this.#keep();
    this.composer.focus();
  }

  // Whether the message went.
  #send(text) {
    if (this.running || !this.settings.check()) return false;
    if (this.conversation.waitsForTools()) {
      announce('Send the results of the tools first.');
      this.list.querySelector('.tool-call textarea')?.focus();
      return false;
    }
    this.conversation.addUser(text);
    this.#answer();
    return true;
  }

  #edit(index, text) {
    if (!this.settings.check()) return;
    this.stop();
    this.conversation.editUser(index, text);
    this.#answer();
  }

  #regenerate(index) {
    if (!this.settings.check()) return;
    this.stop();
    this.conversation.dropFrom(index);
    this.#answer();
  }

  #toolResults(texts) {
    if (this.running || !this.settings.check()) return;
    this.conversation.addToolResults(texts);
    this.#answer();
  }

  async #answer() {
    const { conversation } = this;
    const values = this.settings.values();
    const messages = conversation.messages(values.system.trim() === '' ? '' : values.system);
    const abort = new AbortController();
    const answer = emptyAnswer();
    this.#abort = abort;
    conversation.addAnswer(answer);
    this.composer.setRunning(true);
    this.#show();
    this.#toEnd();
    announce('The answer is on its way.');
    try {
      await this.findModel();
      abort.signal.throwIfAborted();
      answer.times.sent = performance.now();
      await receiveAnswer(answer, requestBody(this.#model, messages, values), abort.signal, () => this.#later());
      announce(answer.calls.length > 0 ? 'The model calls a tool.' : 'The answer is complete.');
    } catch (error) {
      if (abort.signal.aborted) {
        answer.finish = 'stopped';
        announce('Stopped.');
      } else if (error instanceof Failure) {
        answer.failure = error;
      } else {
        throw error;
      }
    } finally {
      // An edit may have begun another answer, whose signs these are by now.
      if (this.#abort === abort) {
        this.#abort = null;
        this.composer.setRunning(false);
      }
      this.#show();
      this.#keep();
    }
  }

  // Soon, once for all that has come by then; timers run in hidden tabs too.
  #later() {
    this.#redraw ??= setTimeout(() => this.#show(), REDRAW_MILLISECONDS);
  }

  #makeView(turn, index) {
    if (turn.role === 'user') return new UserView(turn, (text) => this.#edit(index, text));
    if (turn.role === 'tool') {
      const calls = this.conversation.turns.slice(0, index).flatMap((one) => one.calls ?? []);
      return new ToolResultView(turn, calls.findLast((call) => call.id === turn.callId)?.name ?? 'a tool');
    }
    return new AnswerView(turn, {
      regenerate: () => this.#regenerate(index),
      toolResults: (texts) => this.#toolResults(texts),
    });
  }

  // Brings the views up to the turns.
  #show() {
    clearTimeout(this.#redraw);
    this.#redraw = null;
    const { turns } = this.conversation;
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    const atEnd = scrollHeight - scrollTop - clientHeight < 60;
    let same = 0;
    while (same < this.#views.length && this.#views[same].turn === turns[same]) same += 1;
    this.#views.splice(same).forEach((view) => view.node.remove());
    const made = same < turns.length;
    for (let i = same; i < turns.length; i += 1) {
      const view = this.#makeView(turns[i], i);
      this.#views.push(view);
      this.list.append(view.node);
    }
    this.#views.forEach((view, i) => {
      const last = i === turns.length - 1;
      if (view.update && (last || (made && i >= same - 1))) view.update(last && this.running, last);
    });
    this.list.querySelector('.welcome')?.remove();
    if (turns.length === 0) this.list.append(this.#welcome());
    if (atEnd) this.#toEnd();
  }

  #welcome() {
    return element('div', { className: 'welcome' },
      element('p', { className: 'welcome-title' }, 'What shall we talk about?'),
      element('p', {}, 'Nothing leaves this server. What you write is gone with this page, unless you keep it in the settings.'));
  }

  #toEnd() {
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  #settingsChanged() {
    if (!this.settings) return;  // while it is made
    const { format, tools } = this.settings.values();
    const notes = [];
    if (format !== '') notes.push('answers in JSON');
    if (tools.trim() !== '') notes.push('with tools');
    this.composer.setNote(notes.join(', '));
    this.#keep();
  }

  #keep() {
    if (!keep(this.conversation, this.settings.values()))
      this.composer.setNote('This browser has no room to keep the conversation.');
  }

  #export() {
    const { system, ...settings } = this.settings.values();
    const messages = this.conversation.messages(system);
    const file = { model: this.#model, settings, messages, turns: this.conversation.toJson() };
    saveFile('conversation.json', 'application/json', JSON.stringify(file, null, 2));
  }
}

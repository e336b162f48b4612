// The field for the next message, and its button: Send, or Stop while an answer comes.

import { byId } from './dom.js';

export class Composer {
  // actions: {send(text), stop()}
  constructor(actions) {
    this.actions = actions;
    this.running = false;
    this.field = byId('draft');
    this.button = byId('send');
    this.button.addEventListener('click', () => (this.running ? actions.stop() : this.send()));
    this.field.addEventListener('input', () => this.fit());
    this.field.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      if (!this.running) this.send();
    });
  }

  send() {
    const text = this.field.value;
    if (text.trim() === '') return this.field.focus();
    if (!this.actions.send(text)) return;
    this.field.value = '';
    this.fit();
  }

  // As high as its text, up to the limit of the style sheet.
  fit() {
    this.field.style.height = 'auto';
    this.field.style.height = `${this.field.scrollHeight + 2}px`;
  }

  setRunning(running) {
    this.running = running;
    this.button.textContent = running ? 'Stop' : 'Send';
    this.button.classList.toggle('stop', running);
  }

  setNote(text) {
    byId('composer-note').textContent = text;
  }

  focus() {
    this.field.focus();
  }
}

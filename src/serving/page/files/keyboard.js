// The keys of the page, and the dialog that shows them.

import { button, byId, element } from './dom.js';

const KEYS = [
  ['Enter', 'Send the message'],
  ['Shift + Enter', 'New line'],
  ['Esc', 'Stop the answer; close settings'],
  ['Ctrl + ,', 'Settings'],
  ['Ctrl + E', 'Chat or engine'],
  ['Ctrl + /', 'These keys'],
];

function showKeys() {
  if (document.querySelector('dialog[open]')) return;
  const rows = KEYS.map(([keys, action]) => element('div', {},
    element('dt', {}, element('kbd', {}, keys)), element('dd', {}, action)));
  const dialog = element('dialog', { className: 'dialog', 'aria-labelledby': 'keys-title' },
    element('h2', { id: 'keys-title' }, 'Keys'),
    element('dl', { className: 'keys' }, ...rows),
    element('div', { className: 'dialog-buttons' }, button('Close', () => dialog.close(), 'primary')));
  dialog.addEventListener('close', () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
}

// actions: {escape(), settings(), otherView()}
export function startKeyboard(actions) {
  byId('keys-button').addEventListener('click', showKeys);
  document.addEventListener('keydown', (event) => {
    if (document.querySelector('dialog[open]') || event.isComposing) return;
    const control = (event.ctrlKey || event.metaKey) && !event.altKey;
    if (event.key === 'Escape') actions.escape();
    else if (control && event.key === '/') showKeys();
    else if (control && event.key === ',') actions.settings();
    else if (control && event.key === 'e') actions.otherView();
    else return;
    event.preventDefault();
  });
}

// Asks for the API key.

import { button, element } from './dom.js';

let open = null;

// refused: a key was given before and the server did not take it.  The key, or null where the person does not give one.
export function askForKey(refused) {
  open ??= ask(refused).finally(() => { open = null; });
  return open;
}

function ask(refused) {
  return new Promise((resolve) => {
    const field = element('input', {
      id: 'api-key', type: 'password', autocomplete: 'off', spellcheck: false, 'aria-describedby': 'api-key-note',
    });
    const dialog = element('dialog', { className: 'dialog', 'aria-labelledby': 'api-key-title' },
      element('h2', { id: 'api-key-title' }, 'API key'),
      element('p', { id: 'api-key-note' }, refused
        ? 'The server did not accept this key. Enter another one.'
        : 'This server asks for a key. It is kept in memory until you close or reload the page.'),
      element('label', { for: 'api-key' }, 'Key'), field,
      element('div', { className: 'dialog-buttons' },
        button('Cancel', () => dialog.close()),
        button('Use key', () => use(), 'primary')));
    let given = null;
    const use = () => {
      if (field.value.trim() === '') return field.focus();
      given = field.value.trim();
      dialog.close();
    };
    field.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') use();
    });
    dialog.addEventListener('close', () => {
      dialog.remove();
      resolve(given);
    });
    document.body.append(dialog);
    dialog.showModal();
    field.focus();
  });
}

// Light, dark, or as the system says.

import { byId } from './dom.js';
import { keepTheme, keptTheme } from './storage.js';

const NAMES = { auto: 'Theme: system', light: 'Theme: light', dark: 'Theme: dark' };
const NEXT = { auto: 'dark', dark: 'light', light: 'auto' };
const SIGNS = { auto: '◐', light: '☀', dark: '☾' };

function show(theme) {
  if (theme === 'auto') delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  const button = byId('theme-button');
  button.textContent = SIGNS[theme];
  button.title = NAMES[theme];
  button.setAttribute('aria-label', NAMES[theme]);
}

export function startTheme() {
  const kept = keptTheme();
  let theme = kept in NAMES ? kept : 'auto';
  show(theme);
  byId('theme-button').addEventListener('click', () => {
    theme = NEXT[theme];
    show(theme);
    keepTheme(theme === 'auto' ? null : theme);
  });
}

// What the page keeps in this browser: the theme, and, only while a person has switched it on, the conversation and the
// settings.  Never the API key.

const KEEP = 'deepinfer.keep';
const CONVERSATION = 'deepinfer.conversation';
const SETTINGS = 'deepinfer.settings';
const THEME = 'deepinfer.theme';

// Browsers may forbid or fill up storage: then nothing is kept.
function read(name) {
  try {
    return JSON.parse(localStorage.getItem(name));
  } catch {
    return null;
  }
}

function write(name, value) {
  try {
    localStorage.setItem(name, JSON.stringify(value));
  } catch {
    return false;
  }
  return true;
}

function remove(...names) {
  try {
    names.forEach((name) => localStorage.removeItem(name));
  } catch {
    // Nothing was kept.
  }
}

export function keeps() {
  return read(KEEP) === true;
}

export function setKeeps(on) {
  if (on) write(KEEP, true);
  else remove(KEEP, CONVERSATION, SETTINGS);
}

export function keep(conversation, values) {
  if (!keeps()) return true;
  return write(CONVERSATION, conversation.toJson()) && write(SETTINGS, values);
}

export function kept() {
  return keeps() ? { turns: read(CONVERSATION), values: read(SETTINGS) } : { turns: null, values: null };
}

export function keptTheme() {
  return read(THEME);
}

export function keepTheme(theme) {
  if (theme === null) remove(THEME);
  else write(THEME, theme);
}

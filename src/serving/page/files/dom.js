// Elements from names, properties and children.  Text goes in as text; nothing here or elsewhere parses HTML.

// properties: DOM properties ("className", "onclick"), or attributes where the name has a dash or is "role" or "for".
export function element(name, properties = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key.includes('-') || key === 'role' || key === 'for') node.setAttribute(key, value);
    else node[key] = value;
  }
  node.append(...children.filter((child) => child !== null && child !== undefined));
  return node;
}

export function button(text, onclick, className = 'quiet') {
  return element('button', { type: 'button', className, onclick }, text);
}

export function byId(id) {
  return document.getElementById(id);
}

// Tells users of screen readers what the eye sees.
export function announce(text) {
  byId('status').textContent = text;
}

let lastId = 0;
export function newId(prefix) {
  lastId += 1;
  return `${prefix}-${lastId}`;
}

export function saveFile(name, type, text) {
  const url = URL.createObjectURL(new Blob([text], { type }));
  element('a', { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

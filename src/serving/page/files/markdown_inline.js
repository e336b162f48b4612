// Markdown within a line: code, bold, italic, struck-through, links.  Appends nodes whose text is set as text.

import { element } from './dom.js';

const DEEPEST = 8;
const SPECIAL = /[`*_~[\\]|https?:\/{2}/g;
const BARE_LINK = /https?:\/\/[^\s<>"'`)\]}]*[^\s<>"'`)\]}.,;:!?*_~]/y;

function safeUrl(text) {
  try {
    const url = new URL(text);
    return url.protocol === 'http:' || url.protocol === 'https:' ? url.href : null;
  } catch {
    return null;
  }
}

// The target is always to be seen: a text may claim another one.
function link(url, content) {
  const anchor = element('a', { href: url, target: '_blank', rel: 'noopener noreferrer', title: url });
  anchor.append(content);
  const fragment = document.createDocumentFragment();
  fragment.append(anchor);
  if (anchor.textContent !== url) fragment.append(element('span', { className: 'link-target' }, ` (${url})`));
  return fragment;
}

function isWord(character) {
  return character !== undefined && /[\p{L}\p{N}]/u.test(character);
}

class Inline {
  constructor(text, depth) {
    this.text = text;
    this.depth = depth;
    this.absent = new Set();  // delimiters that do not come again: each is looked for in vain only once
    this.out = document.createDocumentFragment();
  }

  find(delimiter, from) {
    if (this.absent.has(delimiter)) return -1;
    const place = this.text.indexOf(delimiter, from);
    if (place < 0) this.absent.add(delimiter);
    return place;
  }

  inner(text) {
    return this.depth >= DEEPEST ? document.createTextNode(text) : new Inline(text, this.depth + 1).parse();
  }

  parse() {
    let at = 0;
    let plain = 0;
    for (;;) {
      SPECIAL.lastIndex = at;
      const match = SPECIAL.exec(this.text);
      if (match === null) break;
      const start = match.index;
      const taken = this.take(start);
      if (taken === null) {
        at = start + match[0].length;
        continue;
      }
      if (start > plain) this.out.append(this.text.slice(plain, start));
      this.out.append(taken.node);
      at = taken.end;
      plain = at;
    }
    if (plain < this.text.length) this.out.append(this.text.slice(plain));
    return this.out;
  }

  // What begins at this place: its node and end, or null where it is plain text after all.
  take(start) {
    switch (this.text[start]) {
      case '`': return this.code(start);
      case '[': return this.link(start);
      case '\\': return this.escape(start);
      case '*': return this.span(start, '**', 'strong') ?? this.span(start, '*', 'em');
      case '_': return this.span(start, '__', 'strong') ?? this.span(start, '_', 'em');
      case '~': return this.span(start, '~~', 'del');
      default: return this.bareLink(start);
    }
  }

  code(start) {
    const ticks = /`+/y;
    ticks.lastIndex = start;
    const fence = ticks.exec(this.text)[0];
    let end = this.find(fence, start + fence.length);
    while (end >= 0 && this.text[end + fence.length] === '`') {
      while (this.text[end] === '`') end += 1;
      end = this.find(fence, end);
    }
    if (end < 0) return { node: document.createTextNode(fence), end: start + fence.length };
    const content = this.text.slice(start + fence.length, end).replace(/^ (.*\S.*) $/, '$1');
    return { node: element('code', {}, content), end: end + fence.length };
  }

  escape(start) {
    const next = this.text[start + 1];
    if (next === undefined || !/[!-/:-@[-`{-~]/.test(next)) return null;
    return { node: document.createTextNode(next), end: start + 2 };
  }

  span(start, delimiter, name) {
    if (!this.text.startsWith(delimiter, start)) return null;
    const from = start + delimiter.length;
    const inWord = delimiter[0] === '_' && isWord(this.text[start - 1]);
    if (inWord || this.text[from] === undefined || /\s/.test(this.text[from])) return null;
    let end = this.find(delimiter, from + 1);
    // A lone "*" does not end at a "**".
    while (end >= 0 && delimiter.length === 1 && this.text[end + 1] === delimiter) end = this.find(delimiter, end + 2);
    if (end < 0 || /\s/.test(this.text[end - 1])) return null;
    if (delimiter[0] === '_' && isWord(this.text[end + delimiter.length])) return null;
    return { node: element(name, {}, this.inner(this.text.slice(from, end))), end: end + delimiter.length };
  }

  link(start) {
    const middle = this.find('](', start + 1);
    if (middle < 0 || middle - start > 1000) return null;
    const end = this.find(')', middle + 2);
    if (end < 0 || end - middle > 4000) return null;
    const url = safeUrl(this.text.slice(middle + 2, end).replace(/\s+"[^"]*"$/, '').trim());
    if (url === null) return null;
    return { node: link(url, this.inner(this.text.slice(start + 1, middle))), end: end + 1 };
  }

  bareLink(start) {
    BARE_LINK.lastIndex = start;
    const match = BARE_LINK.exec(this.text);
    const url = match && safeUrl(match[0]);
    return url ? { node: link(url, document.createTextNode(match[0])), end: start + match[0].length } : null;
  }
}

export function inlineNodes(text) {
  return new Inline(text, 0).parse();
}

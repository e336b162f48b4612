// Markdown by blocks: paragraphs, headings, lists, quotes, code, tables, rules.  Builds nodes; text is set as text and
// HTML in it stays text.  renderMarkdown() may be called again and again while the text grows: blocks that did not change
// keep their nodes.

import { button, element } from './dom.js';
import { inlineNodes } from './markdown_inline.js';

const DEEPEST = 6;
const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([^`]*)$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)(?:\s+#+)?\s*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^( {0,3})([-*+]|\d{1,9}[.)])(?:( {1,4})(?=\S)|\s*$)/;
const QUOTE = /^ {0,3}> ?/;
const TABLE_RULE = /^ {0,3}\|?\s*:?-+:?\s*(\|\s*:?-+:?\s*)*\|?\s*$/;

function isBlank(line) {
  return line.trim() === '';
}

function startsBlock(line) {
  return FENCE.test(line) || HEADING.test(line) || RULE.test(line) || ITEM.test(line) || QUOTE.test(line);
}

function startsTable(lines, at) {
  return lines[at].includes('|') && at + 1 < lines.length && lines[at + 1].includes('|') && TABLE_RULE.test(lines[at + 1]);
}

// The end of the block that begins at lines[at], and how to build it.
function takeBlock(lines, at, depth) {
  const line = lines[at];
  const fence = FENCE.exec(line);
  if (fence) return takeCode(lines, at, fence);
  const heading = HEADING.exec(line);
  if (heading) return { end: at + 1, build: () => element(`h${heading[1].length}`, {}, inlineNodes(heading[2])) };
  if (RULE.test(line)) return { end: at + 1, build: () => element('hr') };
  if (depth < DEEPEST && QUOTE.test(line)) return takeQuote(lines, at, depth);
  if (depth < DEEPEST && ITEM.test(line)) return takeList(lines, at, depth);
  if (startsTable(lines, at)) return takeTable(lines, at);
  let end = at + 1;
  while (end < lines.length && !isBlank(lines[end]) && !startsBlock(lines[end]) && !startsTable(lines, end)) end += 1;
  const text = lines.slice(at, end).map((one) => one.trim()).join('\n');
  return { end, build: () => element('p', {}, inlineNodes(text)) };
}

function takeCode(lines, at, [, fence, language]) {
  let end = at + 1;
  const closes = (line) => line.trim().startsWith(fence) && line.trim() === fence[0].repeat(line.trim().length);
  while (end < lines.length && !closes(lines[end])) end += 1;
  const text = lines.slice(at + 1, end).join('\n');
  return { end: Math.min(end + 1, lines.length), build: () => codeBlock(text, language.trim()) };
}

export function codeBlock(text, title) {
  return element('figure', { className: 'code' },
    element('figcaption', {}, element('span', {}, title), copyButton(() => text, 'Copy code')),
    element('pre', { tabIndex: 0 }, element('code', {}, text)));
}

export function copyButton(text, label) {
  const copy = button('Copy', async () => {
    try {
      await navigator.clipboard.writeText(text());
      copy.textContent = 'Copied';
    } catch {
      copy.textContent = 'No access to the clipboard';
    }
    setTimeout(() => { copy.textContent = 'Copy'; }, 1500);
  });
  copy.setAttribute('aria-label', label);
  return copy;
}

function takeQuote(lines, at, depth) {
  let end = at;
  while (end < lines.length && !isBlank(lines[end]) && (QUOTE.test(lines[end]) || (end > at && !startsBlock(lines[end]))))
    end += 1;
  const inner = lines.slice(at, end).map((line) => line.replace(QUOTE, ''));
  return { end, build: () => element('blockquote', {}, ...buildAll(inner, depth + 1)) };
}

function takeList(lines, at, depth) {
  const marker = ITEM.exec(lines[at])[2];
  const ordered = /\d/.test(marker);
  const kind = marker.at(-1);
  const items = [];
  let end = at;
  while (end < lines.length) {
    const match = ITEM.exec(lines[end]);
    if (!match || match[2].at(-1) !== kind || RULE.test(lines[end])) break;
    const indent = match[0].length + (match[3] === undefined ? 1 : 0);
    const item = [lines[end].slice(match[0].length)];
    end += 1;
    // What belongs to the item: indented lines, and lines that go on with its paragraph.
    while (end < lines.length) {
      const spaces = lines[end].search(/\S/);
      if (spaces < 0) {
        const next = lines.slice(end).findIndex((line) => !isBlank(line));
        if (next < 0 || lines[end + next].search(/\S/) < indent) break;
      } else if (spaces < Math.min(indent, 2) && startsBlock(lines[end])) {
        break;
      } else if (spaces < indent && (isBlank(item.at(-1)) || startsBlock(lines[end]) && spaces < 2)) {
        break;
      }
      item.push(lines[end].slice(Math.min(indent, Math.max(spaces, 0))));
      end += 1;
    }
    items.push(item);
    let next = end;
    while (next < lines.length && isBlank(lines[next])) next += 1;
    if (next < lines.length && ITEM.test(lines[next])) end = next;
  }
  const build = () => {
    const list = element(ordered ? 'ol' : 'ul', {}, ...items.map((item) => listItem(item, depth)));
    if (ordered) list.start = Number.parseInt(marker, 10);
    return list;
  };
  return { end, build };
}

// A single paragraph stands in its item without margins.
function listItem(lines, depth) {
  const nodes = buildAll(lines, depth + 1);
  return element('li', {}, ...nodes.flatMap((node, i) => (i === 0 && node.tagName === 'P' ? [...node.childNodes] : [node])));
}

function cells(line) {
  return line.trim().replace(/^\||\|$/g, '').split(/(?<!\\)\|/).map((cell) => cell.trim().replaceAll('\\|', '|'));
}

function takeTable(lines, at) {
  let end = at + 2;
  while (end < lines.length && lines[end].includes('|') && !isBlank(lines[end])) end += 1;
  const head = cells(lines[at]);
  const row = (line, name) => {
    const texts = cells(line);
    return element('tr', {}, ...head.map((_, i) => element(name, {}, inlineNodes(texts[i] ?? ''))));
  };
  const build = () => element('div', { className: 'table', tabIndex: 0 }, element('table', {},
    element('thead', {}, row(lines[at], 'th')),
    element('tbody', {}, ...lines.slice(at + 2, end).map((line) => row(line, 'td')))));
  return { end, build };
}

function splitBlocks(lines, depth) {
  const blocks = [];
  for (let at = 0; at < lines.length;) {
    if (isBlank(lines[at])) {
      at += 1;
      continue;
    }
    const { end, build } = takeBlock(lines, at, depth);
    blocks.push({ source: lines.slice(at, end).join('\n'), build });
    at = end;
  }
  return blocks;
}

function buildAll(lines, depth) {
  return splitBlocks(lines, depth).map((block) => block.build());
}

const sources = new WeakMap();  // container -> the source of each of its blocks

// Makes the children of `container` those of `text`.
export function renderMarkdown(container, text) {
  const blocks = splitBlocks(text.replaceAll('\r\n', '\n').replaceAll('\t', '    ').split('\n'), 0);
  const before = sources.get(container) ?? [];
  let same = 0;
  while (same < blocks.length && same < before.length && blocks[same].source === before[same]) same += 1;
  while (container.childNodes.length > same) container.lastChild.remove();
  container.append(...blocks.slice(same).map((block) => block.build()));
  sources.set(container, blocks.map((block) => block.source));
}

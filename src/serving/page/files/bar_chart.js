// A card with horizontal bars: [{name, value, total, text}].

import { element } from './dom.js';

export class BarChart {
  constructor(title, empty) {
    this.empty = empty;
    this.bars = element('div', { className: 'bars' });
    this.node = element('section', { className: 'card' }, element('h2', {}, title), this.bars);
  }

  draw(bars) {
    if (bars.length === 0) {
      this.bars.replaceChildren(element('p', { className: 'note' }, this.empty));
      return;
    }
    this.bars.replaceChildren(...bars.map(({ name, value, total, text }) => {
      const fill = element('span', { className: 'bar-fill' });
      fill.style.width = `${total > 0 ? Math.min(100, (100 * value) / total) : 0}%`;
      return element('div', { className: 'bar-line' },
        element('span', { className: 'bar-name' }, name),
        element('span', { className: 'bar-track', 'aria-hidden': 'true' }, fill),
        element('span', { className: 'bar-text' }, text));
    }));
  }
}

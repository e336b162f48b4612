// A card with lines over the last minutes: title, the newest values, and an SVG of the rest.

import { element } from './dom.js';
import { SAMPLES_KEPT } from './engine_history.js';

const SVG = 'http://www.w3.org/2000/svg';
const WIDTH = SAMPLES_KEPT - 1;
const HEIGHT = 100;

function svg(name, attributes) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  return node;
}

// 1, 2 or 5 times a power of ten, not below the value.
export function roundUp(value) {
  if (!(value > 0)) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((bound) => bound >= value * (1 - 1e-9));
}

// Lines break where there is no value.
export function linePath(values, top) {
  let path = '';
  let pen = 'M';
  values.forEach((value, i) => {
    if (!Number.isFinite(value)) {
      pen = 'M';
      return;
    }
    const x = WIDTH - (values.length - 1 - i);
    path += `${pen}${x} ${(HEIGHT * (1 - value / top)).toFixed(2)}`;
    pen = 'L';
  });
  return path;
}

export class LineChart {
  // lines: [{key, name, format(value)}], keys of the points.
  constructor(title, lines) {
    this.title = title;
    this.lines = lines;
    this.values = lines.map(() => element('b'));
    this.paths = lines.map((_, i) => svg('path', { class: `line line-${i + 1}`, 'vector-effect': 'non-scaling-stroke' }));
    this.top = element('span', { className: 'chart-top' });
    this.drawing = svg('svg', { viewBox: `0 -2 ${WIDTH} ${HEIGHT + 4}`, preserveAspectRatio: 'none', role: 'img' });
    const grid = [0, 50, 100].map((y) => svg('path', {
      class: 'grid', d: `M0 ${y}L${WIDTH} ${y}`, 'vector-effect': 'non-scaling-stroke' }));
    this.drawing.append(...grid, ...this.paths);
    const legend = lines.map((line, i) => element('span', { className: `legend legend-${i + 1}` }, this.values[i], ` ${line.name}`));
    this.node = element('section', { className: 'card' },
      element('h2', {}, title), element('p', { className: 'legends' }, ...legend),
      element('div', { className: 'chart' }, this.top, this.drawing),
      element('p', { className: 'chart-time' }, element('span', {}, `${SAMPLES_KEPT / 60} minutes ago`), element('span', {}, 'now')));
  }

  draw(points) {
    const series = this.lines.map((line) => points.map((point) => point[line.key] ?? NaN));
    const top = roundUp(Math.max(0, ...series.flat().filter(Number.isFinite)));
    this.top.textContent = this.lines[0].format(top);
    const said = this.lines.map((line, i) => {
      const newest = series[i].at(-1);
      this.values[i].textContent = Number.isFinite(newest) ? line.format(newest) : '–';
      this.paths[i].setAttribute('d', linePath(series[i], top));
      return `${line.name} ${this.values[i].textContent}`;
    });
    this.drawing.setAttribute('aria-label', `${this.title}: ${said.join(', ')}`);
  }
}

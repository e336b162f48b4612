// The text format of Prometheus, 0.0.4: samples by name.

const SAMPLE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;
const LABEL = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;

function number(text) {
  if (text === '+Inf') return Infinity;
  if (text === '-Inf') return -Infinity;
  return Number(text);
}

function unescape(value) {
  return value.replace(/\\(.)/g, (_, character) => (character === 'n' ? '\n' : character));
}

export class Metrics {
  #samples = new Map();  // name -> [{labels, value}]

  constructor(text) {
    for (const line of text.split('\n')) {
      const match = line.startsWith('#') ? null : SAMPLE.exec(line);
      if (match === null) continue;
      const labels = Object.create(null);
      for (const [, name, value] of (match[2] ?? '').matchAll(LABEL)) labels[name] = unescape(value);
      if (!this.#samples.has(match[1])) this.#samples.set(match[1], []);
      this.#samples.get(match[1]).push({ labels, value: number(match[3]) });
    }
  }

  // All samples of a name.
  all(name) {
    return this.#samples.get(name) ?? [];
  }

  // The sum of those samples that have these labels; undefined where there is none.
  value(name, labels = {}) {
    const wanted = Object.entries(labels);
    const found = this.all(name).filter((sample) => wanted.every(([key, value]) => sample.labels[key] === value));
    return found.length === 0 ? undefined : found.reduce((sum, sample) => sum + sample.value, 0);
  }

  // The buckets of a histogram, not cumulative: [{bound, count}].
  buckets(name) {
    const below = this.all(`${name}_bucket`)
      .map(({ labels, value }) => ({ bound: number(labels.le), value }))
      .sort((a, b) => a.bound - b.bound);
    return below.map(({ bound, value }, i) => ({ bound, count: value - (i === 0 ? 0 : below[i - 1].value) }));
  }
}

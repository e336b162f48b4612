// The second view: the engine as it works, from /metrics once a second while the view is shown.

import { metricsText, request } from './api.js';
import { BarChart } from './bar_chart.js';
import { button, element } from './dom.js';
import { cacheFill, EngineHistory } from './engine_history.js';
import { Failure } from './failure.js';
import { LineChart } from './line_chart.js';

const POLL_MILLISECONDS = 1000;
const MOST_DOTS = 96;

const whole = (value) => Math.round(value).toLocaleString('en');
const rate = (value) => (value < 10 ? value.toFixed(1) : whole(value));
const time = (seconds) => (seconds < 1 ? `${Number((seconds * 1000).toPrecision(3))} ms` : `${seconds.toFixed(2)} s`);

function percent(part, all) {
  return all > 0 ? `${((100 * part) / all).toFixed(0)} %` : '0 %';
}

// One dot for each request.
function lane(name, number, className) {
  const dots = Array.from({ length: Math.min(number, MOST_DOTS) }, () => element('i', { className: 'dot' }));
  const more = number > MOST_DOTS ? element('span', {}, `+${number - MOST_DOTS}`) : null;
  return element('div', { className: `lane ${className}` },
    element('span', { className: 'lane-name' }, name), element('b', {}, String(number)),
    element('span', { className: 'dots', 'aria-hidden': 'true' }, ...dots, more));
}

export class EngineView {
  #timer = null;
  #abort = null;
  #history = new EngineHistory();

  constructor(node) {
    this.problem = element('div', { className: 'failure', role: 'alert', hidden: true });
    this.lanes = element('div', { className: 'lanes' });
    this.tokens = new LineChart('Tokens a second', [
      { key: 'answered', name: 'answers', format: rate }, { key: 'prefilled', name: 'prompts', format: rate }]);
    this.requests = new LineChart('Requests', [
      { key: 'running', name: 'running', format: whole }, { key: 'waiting', name: 'waiting', format: whole }]);
    this.steps = new LineChart('Time of a step', [
      { key: 'stepTime', name: 'on the device', format: time }, { key: 'planTime', name: 'planning', format: time }]);
    this.rounds = new LineChart('Tokens of a decode round', [
      { key: 'tokensARound', name: 'delivered', format: (value) => value.toFixed(2) }]);
    this.cache = new BarChart('Cache blocks held', 'The server tells nothing of its cache.');
    this.lengths = new BarChart('Rounds by tokens delivered', 'No decode round yet.');
    this.reuse = new BarChart('Prompt tokens from the cache', 'No prompt has ended yet.');
    node.append(element('div', { className: 'engine-column' },
      this.problem,
      element('section', { className: 'card wide' }, element('h2', {}, 'Requests in the engine'), this.lanes),
      element('div', { className: 'cards' }, ...[this.tokens, this.requests, this.steps, this.rounds, this.cache,
        this.lengths, this.reuse].map((chart) => chart.node))));
    this.#drawLanes({ waiting: 0, running: 0, prefilling: 0 });
  }

  start() {
    if (this.#timer !== null) return;
    this.#timer = setInterval(() => this.#poll(), POLL_MILLISECONDS);
    this.#poll();
  }

  stop() {
    clearInterval(this.#timer);
    this.#timer = null;
    this.#abort?.abort();
  }

  async #poll() {
    if (this.#abort !== null) return;  // the server is slow: no second question before the answer
    this.#abort = new AbortController();
    try {
      const text = await metricsText(this.#abort.signal);
      const { metrics, requests } = this.#history.add(text, performance.now());
      this.problem.hidden = true;
      this.#drawLanes(requests);
      this.#draw(metrics);
    } catch (error) {
      if (error.name === 'AbortError') return;
      if (!(error instanceof Failure)) throw error;
      this.#history.addGap();
      this.#showProblem(error);
    } finally {
      this.#abort = null;
    }
  }

  #showProblem(failure) {
    if (!this.problem.hidden && this.problem.dataset.message === failure.message) return;
    this.problem.dataset.message = failure.message;
    this.problem.replaceChildren(element('p', {}, element('strong', {}, failure.message)),
      failure.status === 401
        ? button('Enter the key', () => request('metrics').catch(() => {}), 'primary')
        : element('p', {}, 'The view goes on by itself when the server answers again.'));
    this.problem.hidden = false;
  }

  #drawLanes({ waiting, running, prefilling }) {
    this.lanes.replaceChildren(lane('Waiting', waiting, 'lane-waiting'), lane('Reading prompts', prefilling, 'lane-prefill'),
      lane('Answering', Math.max(0, running - prefilling), 'lane-decode'));
  }

  #draw(metrics) {
    const { points } = this.#history;
    for (const chart of [this.tokens, this.requests, this.steps, this.rounds]) chart.draw(points);
    this.cache.draw(cacheFill(metrics).map(({ name, held, total }) => (
      { name, value: held, total, text: `${whole(held)} of ${whole(total)} (${percent(held, total)})` })));

    const buckets = metrics.buckets('deepinfer_round_tokens').filter(({ count }) => count > 0);
    const rounds = buckets.reduce((sum, { count }) => sum + count, 0);
    this.lengths.draw(buckets.map(({ bound, count }) => (
      { name: Number.isFinite(bound) ? String(bound) : 'more', value: count, total: rounds, text: percent(count, rounds) })));

    const prompts = metrics.value('vllm:prompt_tokens_total') ?? 0;
    this.reuse.draw(prompts === 0 ? [] : metrics.all('deepinfer_prompt_tokens_cached_total').map(({ labels, value }) => (
      { name: labels.tier === 'below' ? 'tier below' : labels.tier, value, total: prompts,
        text: `${whole(value)} (${percent(value, prompts)})` })));
  }
}

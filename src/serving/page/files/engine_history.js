// The last minutes of the engine, from what /metrics said each second.  Counters become rates between two samples.

import { Metrics } from './prometheus.js';

export const SAMPLES_KEPT = 180;

// Two states of the engine, `seconds` apart: what the charts draw.  null where the engine did nothing of the kind.
export function pointBetween(before, after, seconds) {
  const growth = (name, labels) => {
    const grown = after.value(name, labels) - before.value(name, labels);
    return grown >= 0 ? grown : NaN;  // the server began anew, or does not count this
  };
  const rate = (name) => growth(name) / seconds;
  const ratio = (part, whole) => (whole > 0 ? part / whole : null);
  const steps = growth('deepinfer_step_seconds_count');
  return {
    answered: rate('vllm:generation_tokens_total'),
    prefilled: rate('deepinfer_prefill_rows_total'),
    steps: steps / seconds,
    stepTime: ratio(growth('deepinfer_step_seconds_sum'), steps),
    planTime: ratio(growth('deepinfer_step_time_seconds_total', { part: 'plan' }), steps),
    tokensARound: ratio(growth('deepinfer_round_tokens_sum'), growth('deepinfer_round_tokens_count')),
    accepted: ratio(growth('vllm:spec_decode_num_accepted_tokens_total'), growth('vllm:spec_decode_num_draft_tokens_total')),
  };
}

// Fill of the cache: one line for each group and tier that the server tells apart.
export function cacheFill(metrics) {
  const key = ({ group, tier }) => [group, tier].filter((part) => part !== undefined).join(', ');
  const totals = new Map(metrics.all('deepinfer_cache_blocks_capacity').map(({ labels, value }) => [key(labels), value]));
  return metrics.all('deepinfer_cache_blocks_held').map(({ labels, value }) => (
    { name: key(labels) || 'all groups, device', held: value, total: totals.get(key(labels)) ?? 0 }));
}

export class EngineHistory {
  points = [];  // oldest first; each of pointBetween(), with the numbers of requests
  #before = null;

  // now: milliseconds.  The metrics, parsed.
  add(text, now) {
    const metrics = new Metrics(text);
    const gauge = (name) => metrics.value(name) ?? 0;
    const requests = {
      waiting: gauge('vllm:num_requests_waiting'), running: gauge('vllm:num_requests_running'),
      prefilling: gauge('deepinfer_requests_prefilling'),
    };
    if (this.#before !== null && now > this.#before.now) {
      const point = pointBetween(this.#before.metrics, metrics, (now - this.#before.now) / 1000);
      this.points.push({ ...requests, ...point });
      if (this.points.length > SAMPLES_KEPT) this.points.shift();
    }
    this.#before = { metrics, now };
    return { metrics, requests };
  }

  // Nothing was heard: the lines have a gap.
  addGap() {
    if (this.points.length > 0) this.points.push({});
    if (this.points.length > SAMPLES_KEPT) this.points.shift();
    this.#before = null;
  }
}

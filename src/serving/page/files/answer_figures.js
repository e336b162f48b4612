// The line of figures under an answer: only what the server told or the page measured.

function seconds(milliseconds) {
  return milliseconds < 995 ? `${Math.round(milliseconds)} ms` : `${(milliseconds / 1000).toFixed(1)} s`;
}

// Events that came together, because the page was busy or something between collected them, tell nothing of time.
const SHORTEST = 20;

function count(number, one) {
  return `${number} ${one}${number === 1 ? '' : 's'}`;
}

// "Reasoned 3.2 s, 120 tokens"
export function reasoningTitle(answer, streaming) {
  const { first, reasoned, last } = answer.times;
  const running = streaming && reasoned === null;
  const end = reasoned ?? (running ? performance.now() : last);
  const known = first !== null && end !== null && (running || end - first >= SHORTEST);
  const time = known ? ` ${seconds(end - first)}` : '';
  const tokens = answer.usage?.completion_tokens_details?.reasoning_tokens;
  return `${running ? 'Reasoning' : 'Reasoned'}${time}${tokens > 0 ? `, ${count(tokens, 'token')}` : ''}`;
}

export function answerFigures(answer) {
  const { sent, first, last } = answer.times;
  const { usage } = answer;
  const figures = [];
  if (usage?.completion_tokens !== undefined) figures.push(count(usage.completion_tokens, 'token'));
  if (usage?.completion_tokens > 1 && last - first >= SHORTEST) {
    const rate = (usage.completion_tokens - 1) / ((last - first) / 1000);
    figures.push(`${rate.toFixed(rate < 100 ? 1 : 0)} tokens/s`);
  }
  if (first !== null) figures.push(`first token after ${seconds(first - sent)}`);
  const cached = usage?.prompt_tokens_details?.cached_tokens;
  if (usage?.prompt_tokens !== undefined)
    figures.push(`prompt ${usage.prompt_tokens}${cached > 0 ? ` (${cached} from the cache)` : ''}`);
  const details = usage?.completion_tokens_details;
  const accepted = details?.accepted_prediction_tokens;
  const drafted = accepted + details?.rejected_prediction_tokens;
  if (drafted > 0) {
    figures.push(`${accepted} of ${drafted} draft tokens accepted`);
    const rounds = usage.completion_tokens - accepted;  // each decode round delivers one token beside its draft
    if (rounds > 0) figures.push(`${(usage.completion_tokens / rounds).toFixed(2)} tokens a round`);
  }
  if (answer.finish === 'length') figures.push('ended at the limit of tokens');
  if (answer.finish === 'stopped') figures.push('stopped');
  if (answer.ignored) figures.push(`without effect: ${answer.ignored}`);
  return figures;
}

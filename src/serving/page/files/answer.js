// One answer of the model while it arrives: puts the pieces of a stream together and keeps its times.

import { readEvents } from './sse.js';
import { streamCompletion } from './api.js';
import { cutOff, failureOfEvent, Failure } from './failure.js';

export function emptyAnswer() {
  return {
    role: 'assistant', content: '', reasoning: '', calls: [], finish: null, usage: null, ignored: '',
    times: { sent: performance.now(), first: null, reasoned: null, last: null },
  };
}

function addCall(answer, piece) {
  const index = Number(piece.index ?? answer.calls.length);
  if (!Number.isInteger(index) || index < 0 || index > answer.calls.length) return;
  answer.calls[index] ??= { id: '', name: '', arguments: '' };
  const call = answer.calls[index];
  if (piece.id) call.id = String(piece.id);
  call.name += piece.function?.name ?? '';
  call.arguments += piece.function?.arguments ?? '';
}

// chunk: one chat.completion.chunk.
export function addChunk(answer, chunk, now) {
  if (chunk.usage) answer.usage = chunk.usage;
  const choice = chunk.choices?.[0];
  if (!choice) return;
  const { content, reasoning_content: reasoning, tool_calls: calls } = choice.delta ?? {};
  if (reasoning) answer.reasoning += reasoning;
  if (content) answer.content += content;
  for (const piece of calls ?? []) addCall(answer, piece);
  if (content || reasoning || calls) {
    answer.times.first ??= now;
    answer.times.last = now;
    if (answer.reasoning !== '' && (content || calls)) answer.times.reasoned ??= now;
  }
  if (choice.finish_reason) answer.finish = choice.finish_reason;
}

function parseChunk(data) {
  try {
    return JSON.parse(data);
  } catch {
    throw new Failure('The server sent something that is no JSON.', 'Try again; check what lies between the server and you.');
  }
}

// Fills `answer`; onChange() after each piece.  Throws Failure or AbortError, with what had come left in `answer`.
export async function receiveAnswer(answer, body, signal, onChange) {
  const stream = await streamCompletion(body, signal);
  answer.ignored = stream.ignored;
  try {
    for await (const data of readEvents(stream.body)) {
      if (data === '[DONE]') break;
      const chunk = parseChunk(data);
      if (chunk?.error) throw failureOfEvent(chunk.error);
      addChunk(answer, chunk, performance.now());
      onChange();
    }
  } catch (error) {
    if (error instanceof Failure || error.name === 'AbortError') throw error;
    throw cutOff();
  }
  if (answer.finish === null) throw cutOff();
}

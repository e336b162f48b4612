// Requests to the server of this page.  The API key lives in this variable only: it is asked for when the server answers
// 401, and gone with the page.

import { failureOfResponse, unreachable } from './failure.js';
import { askForKey } from './key_dialog.js';

let key = '';

async function send(path, options) {
  const headers = { ...options.headers };
  if (key !== '') headers.authorization = `Bearer ${key}`;
  try {
    return await fetch(path, { ...options, headers, cache: 'no-store', credentials: 'omit' });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw unreachable();
  }
}

// A response with a status of 2xx.  Throws Failure, or AbortError.
// mayAsk: whether a person may be asked for a key; polling does not.
export async function request(path, options = {}, mayAsk = true) {
  for (;;) {
    const used = key;
    const response = await send(path, options);
    if (response.ok) return response;
    const failure = await failureOfResponse(response);
    if (response.status !== 401 || !mayAsk) throw failure;
    if (used !== key) continue;  // somebody else was asked meanwhile
    const given = await askForKey(used !== '');
    if (given === null) throw failure;
    key = given;
  }
}

export async function firstModel() {
  const list = await (await request('v1/models')).json();
  return String(list.data?.[0]?.id ?? '');
}

export async function metricsText(signal) {
  return (await request('metrics', { signal }, false)).text();
}

// The body of a streamed answer.
export async function streamCompletion(body, signal) {
  const response = await request('v1/chat/completions', {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(body),
    signal,
  });
  return { body: response.body, ignored: response.headers.get('deepinfer-ignored') ?? '' };
}

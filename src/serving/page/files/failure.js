// What went wrong with a request, in words, and what a person can do about it.

export class Failure extends Error {
  constructor(message, advice, status = 0) {
    super(message);
    this.advice = advice;
    this.status = status;
  }
}

const ADVICE = {
  400: 'Change the message or the settings as it says, then try again.',
  401: 'Enter a valid API key, then try again.',
  403: 'This key may not do that. Use another key.',
  404: 'The server does not have this. Check its version and the name of the model.',
  408: 'Ask for a shorter answer, or try again when the server is less busy.',
  413: 'Shorten the conversation: edit an earlier message, or start a new one.',
  429: 'Wait a moment, then try again.',
  500: 'Try again. If it happens again, look into the log of the server.',
  503: 'The server is busy, or about to stop. Wait a moment, then try again.',
};

function adviceFor(status) {
  return ADVICE[status] ?? (status >= 500 ? ADVICE[500] : ADVICE[400]);
}

export function unreachable() {
  return new Failure('The server does not answer.', 'Check that it runs and that this device reaches it, then try again.');
}

export function cutOff() {
  return new Failure('The answer ended before it was whole.', 'The connection broke, or the server stopped. Try again.');
}

export async function failureOfResponse(response) {
  let message = `The server answered ${response.status}.`;
  try {
    const body = await response.json();
    if (typeof body?.error?.message === 'string') message = body.error.message;
  } catch {
    // A proxy's own page, perhaps: the status has to do.
  }
  const wait = Number(response.headers.get('retry-after'));
  const advice = wait > 1 ? `Wait ${wait} seconds, then try again.` : adviceFor(response.status);
  return new Failure(message, advice, response.status);
}

// error: the object of an error event within a stream.
export function failureOfEvent(error) {
  const statuses = { invalid_request_error: 400, overloaded_error: 503, timeout_error: 408, rate_limit_error: 429 };
  const message = typeof error.message === 'string' ? error.message : 'The server failed to answer.';
  const status = statuses[error.type] ?? 500;
  return new Failure(message, adviceFor(status), status);
}

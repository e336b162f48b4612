// Server-sent events from the bytes of a response: the values of "data", one for each event.

export class EventParser {
  #decoder = new TextDecoder();
  #waiting = '';
  #data = [];

  // The data of the events that end within these bytes.
  push(bytes) {
    this.#waiting += this.#decoder.decode(bytes, { stream: true });
    // A CR at the end may be half of a line end.
    const end = this.#waiting.endsWith('\r') ? this.#waiting.length - 1 : this.#waiting.length;
    const lines = this.#waiting.slice(0, end).split(/\r\n|\n|\r/);
    this.#waiting = lines.pop() + this.#waiting.slice(end);
    const events = [];
    for (const line of lines) {
      if (line === '') {
        if (this.#data.length > 0) events.push(this.#data.join('\n'));
        this.#data = [];
      } else if (line.startsWith('data:')) {
        this.#data.push(line.slice(line[5] === ' ' ? 6 : 5));
      }
    }
    return events;
  }
}

// stream: a ReadableStream of bytes.  Leaving the loop early cancels it.
export async function* readEvents(stream) {
  const parser = new EventParser();
  const reader = stream.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* parser.push(value);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

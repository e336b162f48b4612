// The conversation: a list of turns, and what may be done with it.  Knows no DOM.
//   {role: "user", content}; {role: "tool", callId, content}; {role: "assistant", ...} as answer.js makes it.

export class Conversation {
  turns = [];

  addUser(content) {
    this.turns.push({ role: 'user', content });
  }

  addAnswer(answer) {
    this.turns.push(answer);
  }

  // results: one text for each call of the last answer.
  addToolResults(results) {
    const { calls } = this.turns.at(-1);
    calls.forEach((call, i) => this.turns.push({ role: 'tool', callId: call.id, content: results[i] }));
  }

  // Another text for a user's turn; what followed goes.
  editUser(index, content) {
    this.turns.splice(index, Infinity, { role: 'user', content });
  }

  // Drops the answer at this place and what followed.
  dropFrom(index) {
    this.turns.splice(index);
  }

  last() {
    return this.turns.at(-1);
  }

  // Whether the last answer waits for results of tools.
  waitsForTools() {
    return this.last()?.role === 'assistant' && this.last().finish === 'tool_calls' && this.last().calls.length > 0;
  }

  // As the API takes it.  Calls without results (the answer was stopped) are left out, and so are answers that said nothing.
  messages(system) {
    const messages = system === '' ? [] : [{ role: 'system', content: system }];
    this.turns.forEach((turn, i) => {
      if (turn.role === 'user') messages.push({ role: 'user', content: turn.content });
      if (turn.role === 'tool') messages.push({ role: 'tool', tool_call_id: turn.callId, content: turn.content });
      if (turn.role !== 'assistant') return;
      const message = { role: 'assistant', content: turn.content };
      if (turn.reasoning !== '') message.reasoning_content = turn.reasoning;
      if (turn.calls.length > 0 && this.turns[i + 1]?.role === 'tool') {
        message.tool_calls = turn.calls.map((call) => (
          { id: call.id, type: 'function', function: { name: call.name, arguments: call.arguments } }));
      }
      if (message.content !== '' || message.tool_calls) messages.push(message);
    });
    return messages;
  }

  // For a file, or for this browser's storage.
  toJson() {
    return this.turns.map(({ failure, ...turn }) => turn);
  }

  static fromJson(turns) {
    const conversation = new Conversation();
    if (Array.isArray(turns)) {
      conversation.turns = turns.filter((turn) => ['user', 'assistant', 'tool'].includes(turn?.role)
        && typeof turn.content === 'string'
        && (turn.role !== 'assistant' || (Array.isArray(turn.calls) && typeof turn.reasoning === 'string' && turn.times)));
    }
    return conversation;
  }
}

// The body of a request from the conversation and the values of the settings.

import { parseSchema, parseTools } from './tools_text.js';

export function requestBody(model, messages, values) {
  const body = { model, messages, stream: true, stream_options: { include_usage: true } };
  if (values.thinking !== '') body.thinking = { type: values.thinking };
  if (values.effort !== '' && values.thinking !== 'disabled') body.reasoning_effort = values.effort;
  for (const name of ['temperature', 'top_p', 'top_k', 'min_p', 'seed', 'max_tokens'])
    if (values[name] !== '') body[name] = Number(values[name]);
  if (values.format === 'json_object') body.response_format = { type: 'json_object' };
  if (values.format === 'json_schema') {
    const schema = parseSchema(values.schema);
    body.response_format = { type: 'json_schema', json_schema: { name: 'answer', schema } };
  }
  const tools = parseTools(values.tools);
  if (tools.length > 0) {
    body.tools = tools;
    if (values.tool_choice !== '') body.tool_choice = values.tool_choice;
  }
  return body;
}

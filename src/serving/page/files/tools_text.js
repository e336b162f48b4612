// JSON that a person types: the list of tools, and the schema of an answer.  Errors are sentences for the person.

function parse(text, what) {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new Error(`${what}: this is no JSON yet (${error.message}).`);
  }
}

function isObject(value) {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

// Functions as the API takes them, or without the wrapper {"type": "function", "function": ...}.
export function parseTools(text) {
  if (text.trim() === '') return [];
  const value = parse(text, 'Tools');
  const list = Array.isArray(value) ? value : [value];
  const names = new Set();
  return list.map((one, i) => {
    const tool = isObject(one) && isObject(one.function) ? one.function : one;
    const place = list.length > 1 ? `Tool ${i + 1}` : 'The tool';
    if (!isObject(tool)) throw new Error(`${place} must be an object with name, description and parameters.`);
    if (typeof tool.name !== 'string' || !/^[A-Za-z0-9_-]{1,128}$/.test(tool.name))
      throw new Error(`${place}: "name" must be 1 to 128 letters, digits, "_" or "-".`);
    if (names.has(tool.name)) throw new Error(`${place}: another tool has the name ${tool.name} too.`);
    names.add(tool.name);
    if (tool.parameters !== undefined && (!isObject(tool.parameters) || tool.parameters.type !== 'object'))
      throw new Error(`${place}: "parameters" must be a JSON Schema with "type": "object".`);
    return { type: 'function', function: tool };
  });
}

export function parseSchema(text) {
  if (text.trim() === '') throw new Error('Schema: enter the JSON Schema that the answer must follow.');
  const schema = parse(text, 'Schema');
  if (!isObject(schema)) throw new Error('Schema: a JSON Schema is an object.');
  return schema;
}

// JSON indented, anything else as it is.
export function prettyJson(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

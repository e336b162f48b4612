// The panel of settings: how to ask the model.  An empty field leaves the choice to the server.

import { button, byId, element } from './dom.js';
import { keeps, setKeeps } from './storage.js';
import { parseSchema, parseTools } from './tools_text.js';

const THINKING = [['', 'Default'], ['enabled', 'On'], ['disabled', 'Off']];
const EFFORT = [['', 'Default'], ['low', 'Low'], ['high', 'High'], ['xhigh', 'Extra high'], ['max', 'Max']];
const FORMAT = [['', 'Text'], ['json_object', 'JSON object'], ['json_schema', 'JSON by schema']];
const TOOL_CHOICE = [['', 'The model chooses'], ['required', 'A call is required'], ['none', 'No calls']];

// Name, label, range as the API checks it.
const NUMBERS = [
  { name: 'temperature', label: 'Temperature', min: 0, max: 2, step: 'any', range: '0 to 2' },
  { name: 'top_p', label: 'Top p', above: 0, max: 1, step: 'any', range: 'above 0, up to 1' },
  { name: 'top_k', label: 'Top k', min: 0, max: 2147483647, step: 1, range: '0 (off) or more' },
  { name: 'min_p', label: 'Min p', min: 0, max: 1, step: 'any', range: '0 to 1' },
  { name: 'seed', label: 'Seed', min: 0, max: Number.MAX_SAFE_INTEGER, step: 1, range: 'a whole number' },
  { name: 'max_tokens', label: 'Most tokens', min: 1, max: 393216, step: 1, range: '1 or more' },
];

export class Settings {
  #fields = new Map();
  #errors = new Map();
  #checks = new Map();

  // onChange(): a value changed.  onKeep(on): keeping in this browser was switched.
  constructor(onChange, onKeep) {
    this.panel = byId('settings');
    this.onChange = onChange;
    const keep = element('input', { type: 'checkbox', id: 'keep', checked: keeps() });
    keep.addEventListener('change', () => {
      setKeeps(keep.checked);
      onKeep(keep.checked);
    });
    this.panel.append(
      element('div', { className: 'settings-head' }, element('h2', {}, 'Settings'), button('Close', () => this.toggle(false))),
      this.#text('system', 'System prompt', 4, 'How the model is to behave', null),
      element('h3', {}, 'Reasoning'),
      element('div', { className: 'pair' }, this.#choice('thinking', 'Thinking', THINKING), this.#choice('effort', 'Effort', EFFORT)),
      element('h3', {}, 'Sampling'),
      element('div', { className: 'pair' }, ...NUMBERS.map((number) => this.#number(number))),
      element('h3', {}, 'Answer'),
      this.#choice('format', 'Format', FORMAT),
      this.#text('schema', 'JSON Schema', 6, '{"type": "object", "properties": {…}}', parseSchema),
      element('p', { className: 'note', id: 'format-note' }, 'The word JSON must stand somewhere in the conversation.'),
      element('h3', {}, 'Tools'),
      this.#text('tools', 'Functions, as JSON', 6, '[{"name": "…", "description": "…", "parameters": {"type": "object"}}]', parseTools),
      this.#choice('tool_choice', 'Calls', TOOL_CHOICE),
      element('h3', {}, 'This browser'),
      element('label', { className: 'check' }, keep, 'Keep the conversation and settings here'),
      element('p', { className: 'note' }, 'Off: they are gone with the page. The API key is never kept.'));
    this.#changed();
  }

  #add(name, label, field, check) {
    field.id = `setting-${name}`;
    const error = element('p', { className: 'field-error', id: `${field.id}-error` });
    field.setAttribute('aria-describedby', error.id);
    field.addEventListener(field.tagName === 'SELECT' ? 'change' : 'input', () => this.#changed());
    this.#fields.set(name, field);
    this.#errors.set(name, error);
    this.#checks.set(name, check);
    return element('div', { className: 'field' }, element('label', { for: field.id }, label), field, error);
  }

  #text(name, label, rows, placeholder, parse) {
    const check = () => {
      try {
        parse?.(this.#fields.get(name).value);
        return '';
      } catch (error) {
        return error.message;
      }
    };
    return this.#add(name, label, element('textarea', { rows, placeholder, spellcheck: parse === null }), check);
  }

  #choice(name, label, choices) {
    const options = choices.map(([value, text]) => element('option', { value }, text));
    return this.#add(name, label, element('select', {}, ...options), () => '');
  }

  #number({ name, label, min, above, max, step, range }) {
    const field = element('input', { type: 'number', inputMode: step === 1 ? 'numeric' : 'decimal', step, max, placeholder: 'default' });
    if (min !== undefined) field.min = min;
    return this.#add(name, label, field, () => {
      const text = `${label}: ${range}.`;
      if (field.validity.badInput || !field.validity.valid) return text;
      return field.value !== '' && above !== undefined && !(Number(field.value) > above) ? text : '';
    });
  }

  #changed() {
    const { format } = this.values();
    this.#fields.get('schema').parentElement.hidden = format !== 'json_schema';
    byId('format-note').hidden = format !== 'json_object';
    for (const [name, error] of this.#errors) {
      // A schema that nobody has begun to type is missed when it is sent, not before.
      const quiet = name === 'schema' && (format !== 'json_schema' || this.#fields.get(name).value.trim() === '');
      error.textContent = quiet ? '' : this.#checks.get(name)();
      this.#fields.get(name).setAttribute('aria-invalid', String(error.textContent !== ''));
    }
    this.onChange();
  }

  values() {
    return Object.fromEntries([...this.#fields].map(([name, field]) => [name, field.value]));
  }

  setValues(values) {
    for (const [name, field] of this.#fields)
      if (typeof values?.[name] === 'string') field.value = values[name];
    this.#changed();
  }

  // Shows the first setting that cannot be sent.  Whether there is none.
  check() {
    const { format } = this.values();
    for (const [name, check] of this.#checks) {
      const text = name === 'schema' && format !== 'json_schema' ? '' : check();
      if (text === '') continue;
      this.toggle(true);
      this.#errors.get(name).textContent = text;
      this.#fields.get(name).focus();
      return false;
    }
    return true;
  }

  get open() {
    return !this.panel.hidden;
  }

  toggle(open = !this.open) {
    const had = this.panel.contains(document.activeElement);
    this.panel.hidden = !open;
    byId('settings-button').setAttribute('aria-expanded', String(open));
    if (open) this.#fields.get('system').focus();
    else if (had) byId('settings-button').focus();
  }
}

// What the visitor sets and sends.

import { post } from './api.js';
import { count, seconds } from './text.js';

const $ = (id) => document.getElementById(id);
const form = $('config');
const perSecond = $('per_second');
const burst = $('count');

const inputs = { ...Object.fromEntries([...form.elements].map((e) => [e.name, e])), per_second: perSecond, count: burst };
const hints = {
  rate: (b) => `${b.min} to ${b.max}`,
  period_ms: (b) => `${b.min / 1000} to ${b.max / 1000}`,
  burst: (b) => `0 to ${b.max}`,
  cost: (b) => `${b.min} to ${b.max}`,
  per_second: (b) => `${b.min} to ${b.max}`,
  count: (b) => `${b.min} to ${b.max}`,
};

let traffic = { mode: 'pause', per_second: 10 };

// applyBounds takes the server's bounds over to the inputs.
export function applyBounds(bounds) {
  for (const [name, hint] of Object.entries(hints)) {
    const unit = name === 'period_ms' ? 1000 : 1;
    inputs[name].min = bounds[name].min / unit;
    inputs[name].max = bounds[name].max / unit;
    $(`${name}-hint`).textContent = hint(bounds[name]);
  }
}

// show brings the controls up to date, but for what is being typed, or has been
// typed and is wrong: that stays, marked, until it is put right.
export function show(state) {
  for (const [name, value] of Object.entries({ ...state.config, per_second: state.traffic.per_second })) {
    const input = inputs[name];
    const text = String(name === 'period_ms' ? value / 1000 : value);
    const typed = document.activeElement === input || pending.has(input) || input.hasAttribute('aria-invalid');
    if (!typed) input.value = text;
  }
  traffic = state.traffic;
  for (const button of document.querySelectorAll('[data-mode]')) {
    button.setAttribute('aria-pressed', String(button.dataset.mode === traffic.mode));
  }
  $('summary').textContent = summary(state.config);
  $('note').textContent = note(state);
}

function summary({ rate, period_ms: period, burst: given, cost }) {
  const each = seconds(Math.max(period / rate, 1));
  const pace = period / rate < 100 ? `${+(period / rate).toFixed(1)} ms` : each;
  const buckets = given ? `Both buckets hold ${given}.` : `Burst 0: the token bucket holds ${rate}, the leaky bucket 1.`;
  const price = cost > 1 ? ` A request takes ${cost}.` : '';
  return `${count(rate, 'unit')} every ${period / 1000} s, one each ${pace} in the long run. ${buckets}${price}`;
}

function note({ now, traffic: { mode, note: text, next_ms: next, per_second: speed } }) {
  if (text) return next > now ? `${text} In ${seconds(next - now)}.` : text;
  if (mode === 'steady') return `${count(speed, 'request')} a second, evenly.`;
  if (mode === 'random') return `${count(speed, 'request')} a second in the mean, single ones and clumps.`;
  return 'Paused. Nothing is sent but what you send.';
}

// send posts and shows an error where it belongs.
async function send(path, body) {
  try {
    return await post(path, body);
  } catch (error) {
    const input = inputs[error.field];
    if (input) mark(input, false);
    $('spoken').textContent = error.message;
    return undefined;
  }
}

function mark(input, good) {
  if (good) input.removeAttribute('aria-invalid');
  else input.setAttribute('aria-invalid', 'true');
}

function isGood(input) {
  const good = input.validity.valid;
  mark(input, good);
  return good;
}

// later calls f when input has rested for a moment, or at once when it is left.
const pending = new Map();
function later(input, f) {
  const run = () => {
    if (!pending.has(input)) return;
    clearTimeout(pending.get(input));
    pending.delete(input);
    if (isGood(input)) f();
  };
  input.addEventListener('input', () => {
    clearTimeout(pending.get(input));
    pending.set(input, setTimeout(run, 300));
  });
  input.addEventListener('change', run);
}

function valueOf(input) {
  if (input.name === 'key') return input.value;
  if (input.name === 'period_ms') return Math.round(input.valueAsNumber * 1000);
  return input.valueAsNumber;
}

async function sendRequests(n) {
  const answer = await send('test', { count: n });
  if (!answer) return;
  const titles = (id) => document.querySelector(`#${id} h2`).textContent;
  $('spoken').textContent = answer.results
    .map((r) => `${titles(r.algorithm)}: ${r.allowed} allowed, ${r.refused} refused${r.undecided ? ', no decision' : ''}.`)
    .join(' ');
}

export function wire() {
  form.addEventListener('submit', (event) => event.preventDefault());
  for (const input of form.elements) {
    later(input, () => send('config', { [input.name]: valueOf(input) }));
  }
  later(perSecond, () => send('traffic', { per_second: perSecond.valueAsNumber }));
  burst.addEventListener('input', () => isGood(burst));

  $('buttons').addEventListener('click', (event) => {
    const button = event.target.closest('button');
    if (!button) return;
    if (button.dataset.mode) send('traffic', { mode: button.dataset.mode });
    else if (button.dataset.send === 'one') sendRequests(1);
    else if (isGood(burst)) sendRequests(burst.valueAsNumber);
    else burst.focus();
  });
  $('reset').addEventListener('click', async () => {
    await send('traffic', { mode: 'pause' });
    await send('reset', {});
  });
}

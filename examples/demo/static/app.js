// The page: it listens to its server, and shows what it hears.

import { listen } from './api.js';
import * as controls from './controls.js';
import { Panel } from './panel.js';

const $ = (id) => document.getElementById(id);
const calm = matchMedia('(prefers-reduced-motion: reduce)');
const panels = new Map();

let drawn = 0;
let described = 0;

function onState(state) {
  if (state.bounds) controls.applyBounds(state.bounds);
  controls.show(state);
  showServer(state.redis);
  for (const view of state.panels) {
    if (view.about && !panels.has(view.algorithm)) {
      const panel = new Panel(view.about);
      panels.set(view.algorithm, panel);
      $('panels').append(panel.root);
    }
    panels.get(view.algorithm).update(view, state.config);
  }
  drawAll(state);
  document.body.dataset.ready = 'true';
}

function showServer({ name, embedded, up, error }) {
  const text = embedded ? `${name}. To use one, start it there, and the demo again.` : name;
  if ($('server').textContent !== text) $('server').textContent = text;
  $('server-mark').classList.toggle('down', !up);
  banner(up ? '' : `No decisions: ${error}. This page goes on by itself when Redis is back.`);
}

function banner(text) {
  if ($('banner').textContent !== text) $('banner').textContent = text;
  $('banner').hidden = !text;
}

// drawAll draws all charts to one scale, so that they compare. Some time after
// the last request they stand still, until the next one.
function drawAll(state) {
  const all = [...panels.values()];
  const span = Math.min(60_000, Math.max(10_000, state.config.period_ms * 3));
  const active = Math.max(...all.map((panel) => panel.reach(Infinity).active));
  const end = active ? Math.min(state.now, active * 100 + span * 0.6) : state.now;
  const held = end < state.now;

  const rest = calm.matches ? 500 : 0;
  if (performance.now() - drawn < rest) return;
  drawn = performance.now();

  const reaches = all.map((panel) => panel.reach((end - span) / 100));
  const limit = state.config.rate;
  const most = Math.max(limit * 1.3, ...reaches.map((reach) => reach.most * 1.08));
  const tallest = Math.max(5, ...reaches.map((reach) => reach.tallest));
  for (const panel of all) panel.draw({ end, span, limit, most, tallest });
  $('span').textContent = held ? `${span / 1000} s · the charts wait for the next request` : `the last ${span / 1000} s`;

  if (performance.now() - described > 2000) {
    described = performance.now();
    for (const panel of all) panel.describe(span);
  }
}

controls.wire();
listen(onState, () => {
  banner('The connection to the demo is lost. This page goes on by itself when it is back.');
});

// One algorithm on the page.

import { draw } from './chart.js';
import { level, micros, seconds } from './text.js';

const MARKS = { allowed: '✓', refused: '✕', undecided: '?' };

export class Panel {
  constructor(about) {
    this.bins = new Map();
    this.edges = new Set();
    this.newest = 0;
    const root = document.getElementById('panel').content.cloneNode(true).firstElementChild;
    this.root = root;
    this.find = (selector) => root.querySelector(selector);
    root.id = about.id;
    this.find('h2').id = `${about.id}-title`;
    root.setAttribute('aria-labelledby', `${about.id}-title`);
    this.about = about;
    this.set('h2', about.title);
    this.set('.constructor', about.constructor);
    this.set('.rule', about.rule);
    this.find('.gauge').setAttribute('aria-label', `${about.title}: ${about.level}`);
  }

  // set writes only what changes, so that a selection survives.
  set(selector, text) {
    const element = this.find(selector);
    if (element.textContent !== text) element.textContent = text;
    return element;
  }

  update(view, config) {
    this.view = view;
    view.bins.forEach((bin, i) => this.bins.set(view.first + i, bin));
    this.newest = view.first + view.bins.length - 1;
    for (const number of this.bins.keys()) {
      if (number > this.newest - 600) continue;
      this.bins.delete(number);
    }
    for (const edge of view.edges) this.edges.add(edge);
    for (const edge of this.edges) if (edge < (this.newest - 600) * 100) this.edges.delete(edge);

    this.showHappened(view);
    this.showLevel(view);
    this.showNumbers(view, config);
    this.showHeaders(view.last);
    this.showKey(view.key);
  }

  showHappened({ last, over }) {
    const verdict = !last ? '' : last.error ? 'undecided' : last.allowed ? 'allowed' : 'refused';
    this.find('.story').className = `story ${verdict}`;
    this.set('.mark', MARKS[verdict] ?? '');
    this.set('.story .text', last ? last.story : 'No request yet.');
    this.set('.over', over ?? '').hidden = !over;
  }

  showLevel(view) {
    this.set('.level .value', level(view.level));
    this.set('.level .of', `of ${view.capacity} ${this.about.level}`);
    const gauge = this.find('.gauge');
    gauge.setAttribute('aria-valuemax', view.capacity);
    gauge.setAttribute('aria-valuenow', view.level);
    gauge.firstElementChild.style.transform = `scaleX(${Math.min(1, view.level / view.capacity)})`;
  }

  showNumbers(view, config) {
    this.set('.remaining', String(view.remaining));
    const wait = { now: 'now', never: 'never', unknown: 'not yet', later: `in ${seconds(view.wait.ms)}` };
    this.set('.wait', wait[view.wait.until]).className = `wait ${view.wait.until}`;
    this.set('.passed', `${view.passed} of ${config.rate}`);
    const beyond = view.most > config.rate;
    this.set('.most', `${beyond ? '▲ ' : ''}${view.most}`).classList.toggle('beyond', beyond);
    this.set('.took', view.last && !view.last.error ? micros(view.last.took_us) : '–');
    this.set('.median', view.median_us ? micros(view.median_us) : '–');
  }

  showHeaders(last) {
    const lines = (last?.headers ?? []).map((h) => (h.name.startsWith('HTTP') ? `${h.name} ${h.value}` : `${h.name}: ${h.value}`));
    this.set('.headers pre', lines.join('\n') || '–');
  }

  showKey(key) {
    this.set('.key .name', key?.name ?? '–');
    if (!key || key.error || !key.type) {
      this.set('.key .meta', key?.error ? `not readable: ${key.error}` : 'not there: nothing counts any more');
      this.find('.key tbody').replaceChildren();
      return;
    }
    const size = key.bytes < 0 ? 'bytes not told' : `${key.bytes} bytes`;
    const ttl = key.ttl_ms < 0 ? 'no TTL' : `TTL ${seconds(key.ttl_ms)}`;
    this.set('.key .meta', `${key.type} · ${ttl} · ${size}`);
    const rows = key.fields.map(([name, value]) => [key.type === 'list' ? `[${name}]` : name, value]);
    if (key.more) rows.unshift(['…', `${key.more} before`]);
    this.showRows(rows);
  }

  showRows(rows) {
    const body = this.find('.key tbody');
    while (body.rows.length > rows.length) body.deleteRow(-1);
    rows.forEach(([name, value], i) => {
      const row = body.rows[i] ?? body.insertRow();
      if (!row.cells.length) {
        const head = document.createElement('th');
        head.scope = 'row';
        row.append(head, document.createElement('td'));
      }
      if (row.cells[0].textContent !== name) row.cells[0].textContent = name;
      if (row.cells[1].textContent !== value) row.cells[1].textContent = value;
    });
  }

  // reach is what the chart has to have room for from the bin first on.
  reach(first) {
    let tallest = 0;
    let most = 0;
    let active = 0;
    for (const [number, bin] of this.bins) {
      if (bin[0] || bin[1] || bin[2]) active = number;
      if (number < first) continue;
      tallest = Math.max(tallest, bin[0], bin[1]);
      most = Math.max(most, bin[3]);
    }
    return { tallest, most, active };
  }

  draw(view) {
    draw(this.find('canvas'), this.bins, this.edges, view);
  }

  // describe tells in words what the chart shows.
  describe(span) {
    let [allowed, refused] = [0, 0];
    for (const [number, bin] of this.bins) {
      if (number <= this.newest - span / 100) continue;
      allowed += bin[0];
      refused += bin[1];
    }
    const text = `In the last ${Math.round(span / 1000)} seconds ${allowed} units allowed, ${refused} refused; the most in one period is ${this.view.most}.`;
    this.find('canvas').setAttribute('aria-label', text);
  }
}

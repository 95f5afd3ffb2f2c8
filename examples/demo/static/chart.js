// A chart has two parts over one axis of time. Above, what passed within the
// last period, against the limit; below, the units of each 100 ms: allowed
// ones up, refused ones down.

const BIN = 100; // ms
const FONT = '11px system-ui, sans-serif';

let colors;

function readColors() {
  const style = getComputedStyle(document.documentElement);
  const names = ['ink', 'soft', 'line', 'card', 'allowed', 'allowed-tint', 'refused', 'over', 'over-tint'];
  colors = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--${name}`).trim()]));
}

matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { colors = undefined; });

// draw draws the bins, a map from number to [allowed, refused, undecided,
// passed], in view: {end, span, limit, most, tallest}, the same for all charts.
export function draw(canvas, bins, edges, view) {
  if (!colors) readColors();
  const scale = Math.min(devicePixelRatio || 1, 3);
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const g = canvas.getContext('2d');
  g.setTransform(scale, 0, 0, scale, 0, 0);
  g.clearRect(0, 0, width, height);
  g.font = FONT;

  const x = (ms) => width - ((view.end - ms) / view.span) * width;
  const first = Math.floor((view.end - view.span) / BIN);
  const last = Math.floor((view.end - 1) / BIN);
  const shown = [];
  for (let i = first; i <= last; i++) {
    const bin = bins.get(i);
    if (bin) shown.push({ x: x(i * BIN), bin });
  }
  const step = (BIN / view.span) * width;
  const split = Math.round(height * 0.52);

  drawEdges(g, edges, x, height);
  drawPassed(g, shown, step, { width, top: 6, bottom: split - 8 }, view);
  drawBars(g, shown, step, { width, top: split + 6, bottom: height - 2 }, view);
}

function drawEdges(g, edges, x, height) {
  g.strokeStyle = colors.soft;
  g.setLineDash([1.5, 3]);
  g.lineWidth = 1.25;
  g.beginPath();
  for (const edge of edges) {
    g.moveTo(x(edge), 0);
    g.lineTo(x(edge), height);
  }
  g.stroke();
  g.setLineDash([]);
}

function drawPassed(g, shown, step, area, view) {
  const y = (units) => area.bottom - (units / view.most) * (area.bottom - area.top);
  const limit = y(view.limit);
  for (const { x, bin } of shown) {
    const passed = bin[3];
    if (!passed) continue;
    g.fillStyle = colors['allowed-tint'];
    g.fillRect(x, y(Math.min(passed, view.limit)), step + 0.5, area.bottom - y(Math.min(passed, view.limit)));
    if (passed > view.limit) {
      g.fillStyle = colors['over-tint'];
      g.fillRect(x, y(passed), step + 0.5, limit - y(passed));
    }
  }
  for (const beyond of [false, true]) {
    g.strokeStyle = beyond ? colors.over : colors.ink;
    g.lineWidth = beyond ? 2.5 : 1.5;
    g.beginPath();
    let before;
    for (const { x, bin } of shown) {
      const height = y(bin[3]);
      if (beyond && bin[3] <= view.limit) { before = undefined; continue; }
      if (before === undefined) g.moveTo(x, height);
      else g.lineTo(x, height);
      g.lineTo(x + step, height);
      before = height;
    }
    g.stroke();
  }
  g.strokeStyle = colors.line;
  g.lineWidth = 1;
  line(g, area.bottom + 0.5, area.width);
  g.strokeStyle = colors.soft;
  g.setLineDash([5, 4]);
  line(g, Math.round(limit) + 0.5, area.width);
  g.setLineDash([]);
  label(g, `limit ${view.limit}`, 2, limit - 4);
}

function drawBars(g, shown, step, area, view) {
  const axis = Math.round((area.top + area.bottom) / 2);
  const y = (units) => (units / view.tallest) * (axis - area.top - 1);
  const gap = step > 2.5 ? 0.7 : 0;
  for (const { x, bin: [allowed, refused, undecided] } of shown) {
    if (allowed) {
      g.fillStyle = colors.allowed;
      g.fillRect(x, axis - Math.max(y(allowed), 1.5), step - gap, Math.max(y(allowed), 1.5));
    }
    if (refused) {
      g.fillStyle = colors.refused;
      g.fillRect(x, axis + 1, step - gap, Math.max(y(refused), 1.5));
    }
    if (undecided) {
      g.strokeStyle = colors.soft;
      g.lineWidth = 1;
      g.strokeRect(x + 0.5, axis - 3.5, Math.max(step - gap - 1, 1), 7);
    }
  }
  g.fillStyle = colors.soft;
  g.fillRect(0, axis, area.width, 1);
  label(g, String(view.tallest), 2, area.top + 8);
  label(g, String(view.tallest), 2, area.bottom - 1);
}

function line(g, y, width) {
  g.beginPath();
  g.moveTo(0, y);
  g.lineTo(width, y);
  g.stroke();
}

function label(g, text, x, y) {
  g.lineWidth = 3;
  g.strokeStyle = colors.card;
  g.strokeText(text, x, y);
  g.fillStyle = colors.soft;
  g.fillText(text, x, y);
}

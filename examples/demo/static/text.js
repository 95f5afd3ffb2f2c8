// How numbers are written.

export function count(n, what) {
  return n === 1 ? `1 ${what}` : `${n} ${what}s`;
}

// seconds is a time to wait, rounded up: nobody is to come too early.
export function seconds(ms) {
  if (ms >= 99_950) return `${Math.ceil(ms / 1000)} s`;
  return `${(Math.ceil(ms / 100 - 1e-6) / 10).toFixed(1)} s`;
}

export function micros(us) {
  return us < 1000 ? `${us} µs` : `${(us / 1000).toFixed(us < 10_000 ? 1 : 0)} ms`;
}

// level has one decimal where there is a part of a unit.
export function level(n) {
  return Number.isInteger(n) ? String(n) : n.toFixed(1);
}

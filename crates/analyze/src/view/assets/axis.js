// The stretch of time that all plots show, and round numbers for their axes.

const MOST_TICKS = 100;

// Multiples of 1, 2 or 5 times a power of ten, about `wanted` of them.
function ticks(from, to, wanted) {
  const rough = (to - from) / Math.max(1, wanted);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const list = [];
  const first = Math.ceil(from / step);
  // With a bound: next to times of 10^18 ns, which a frame without a time in front of others makes,
  // neighbouring numbers are further apart than a step.
  for (let n = 0; n < MOST_TICKS && (first + n) * step <= to; n++) list.push((first + n) * step || 0);
  return { step, list };
}

// Text of a tick in time: the unit fits the span, the digits fit the step.
function timeTick(value, step, span) {
  const [unit, name] = TIME_UNITS.find(([unit]) => span >= unit * 2) || TIME_UNITS[3];
  const digits = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  return `${(value / unit).toFixed(digits)} ${name}`;
}

const MIN_SPAN = 100; // nanoseconds

class TimeView {
  constructor() {
    this.whole = [0, 1];
    this.begin = 0;
    this.end = 1;
    this.listeners = [];
  }

  listen(listener) {
    this.listeners.push(listener);
  }

  // Shows everything from `begin` to `end`, with some room at both sides.
  setWhole(begin, end) {
    const room = (end - begin) * 0.02;
    this.whole = [begin - room, end + room];
    this.show(...this.whole);
  }

  show(begin, end) {
    const [first, last] = this.whole;
    const span = Math.min(Math.max(end - begin, MIN_SPAN), last - first);
    this.begin = Math.max(first, Math.min(begin, last - span));
    this.end = this.begin + span;
    for (const listener of this.listeners) listener();
  }

  showAll() {
    this.show(...this.whole);
  }

  // Zooms so that the time `at` stays where it is.
  zoom(factor, at = (this.begin + this.end) / 2) {
    const span = Math.min(Math.max((this.end - this.begin) * factor, MIN_SPAN), this.whole[1] - this.whole[0]);
    const part = (at - this.begin) / (this.end - this.begin || 1);
    this.show(at - span * part, at + span * (1 - part));
  }

  // Moves by a part of what is shown.
  pan(part) {
    const by = (this.end - this.begin) * part;
    this.show(this.begin + by, this.end + by);
  }

  // Moves just so far that the time `at` is shown.
  reveal(at) {
    if (at >= this.begin && at <= this.end) return;
    const half = (this.end - this.begin) / 2;
    this.show(at - half, at + half);
  }
}

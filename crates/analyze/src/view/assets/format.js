// Numbers as text.

const THOUSANDS = new Intl.NumberFormat('en');

function plural(count, noun) {
  return `${THOUSANDS.format(count)} ${noun}${count === 1 ? '' : 's'}`;
}

function hex(number, digits) {
  return '0x' + number.toString(16).padStart(digits, '0');
}

// 24 bits of a PSN that counts on without wrap.
function psnText(psn) {
  return hex(psn % 16777216, 6);
}

const BYTE_UNITS = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];

function bytesText(bytes) {
  let unit = 0;
  while (bytes >= 1024 && unit < BYTE_UNITS.length - 1) {
    bytes /= 1024;
    unit++;
  }
  const digits = unit === 0 || bytes >= 100 ? 0 : bytes >= 10 ? 1 : 2;
  return `${trimZeros(bytes.toFixed(digits))} ${BYTE_UNITS[unit]}`;
}

function trimZeros(text) {
  return text.includes('.') ? text.replace(/\.?0+$/, '') : text;
}

const TIME_UNITS = [[1e9, 's'], [1e6, 'ms'], [1e3, 'µs'], [1, 'ns']];

// A span of time with three digits that count.
function spanText(nanoseconds) {
  if (nanoseconds === 0) return '0';
  const size = Math.abs(nanoseconds);
  const [unit, name] = TIME_UNITS.find(([unit]) => size >= unit) || TIME_UNITS[3];
  const value = nanoseconds / unit;
  const digits = Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2;
  return `${trimZeros(value.toFixed(unit === 1 ? 0 : digits))} ${name}`;
}

// Digits behind the second: 9 if the capture has nanoseconds, 6 if it has microseconds.
let timeDigits = 6;

// A point in time since the earliest packet, in seconds.
function timeText(nanoseconds) {
  return (nanoseconds / 1e9).toFixed(timeDigits);
}

// The date of the earliest packet in UTC. `start` has more digits than a number keeps.
function dateText(start) {
  if (start === '0') return '';
  const date = new Date(Number(start.slice(0, -6)));
  return Number.isNaN(date.getTime()) ? '' : date.toISOString().replace('T', ' ').slice(0, 19) + ' UTC';
}

function endText(end) {
  return end.qpn === null ? end.address : `${end.address} QP ${hex(end.qpn, 6)}`;
}

// Reads what the page carries: JSON for names, base64 (of gzip) for columns and packet bytes.

function textOf(id) {
  return document.getElementById(id).textContent;
}

function fromBase64(text) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < bytes.length; i++) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function gunzip(bytes) {
  if (typeof DecompressionStream === 'undefined') {
    throw new Error('This browser cannot unpack gzip. Make the page again with '
      + '`uroce view --uncompressed`, or use a browser of 2023 or later.');
  }
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream('gzip'));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function readSection(id, compressed) {
  const bytes = fromBase64(textOf(id));
  // The text is not needed again: let the browser have its memory back.
  document.getElementById(id).remove();
  return compressed ? gunzip(bytes) : bytes;
}

const ARRAYS = { u8: Uint8Array, u16: Uint16Array, u32: Uint32Array };

// Columns by name, as typed arrays over one buffer.
function columnsOf(meta, bytes) {
  const columns = {};
  for (const { name, width, at, count } of meta.columns) {
    columns[name] = new ARRAYS[width](bytes.buffer, bytes.byteOffset + at, count);
  }
  return columns;
}

// Times in nanoseconds since the earliest packet, from the differences that the page carries.
function timesOf(columns, count) {
  const times = new Float64Array(count);
  const low = columns.time_low;
  const high = new Int32Array(columns.time_high.buffer, columns.time_high.byteOffset, count);
  let time = 0;
  // Of two interfaces, the first packet may have the later clock.
  let earliest = 0;
  for (let row = 0; row < count; row++) {
    time += high[row] * 4294967296 + low[row];
    times[row] = time;
    earliest = Math.min(earliest, time);
  }
  return times.map((time) => time - earliest);
}

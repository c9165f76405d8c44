// Which rows a filter of the user lets through. Words are joined by "and"; a word with `-` in front
// must not match. A word is `#frame`, `psn=number`, `opcode=number`, the name of a kind (`nak`), or
// text that is looked for in the name of the packet, its remarks and its comment.

function parseNumber(text) {
  return /^(0x[0-9a-f]+|[0-9]+)$/i.test(text) ? Number(text) : NaN;
}

// A test of one row for one word.
function wordTest(capture, word) {
  const { columns } = capture;
  if (/^#[0-9]+$/.test(word)) {
    const frame = Number(word.slice(1));
    return (row) => columns.frame[row] === frame;
  }
  const [name, value] = word.split('=');
  const number = parseNumber(value || '');
  if (name === 'psn' && !Number.isNaN(number)) return (row) => capture.psn(row) % 16777216 === number;
  if (name === 'opcode' && !Number.isNaN(number)) return (row) => columns.opcode[row] === number;
  if (word in capture.kindOf) return (row) => columns.kind[row] === capture.kindOf[word];
  return textTest(capture, word);
}

// Texts are few and rows are many: the word is looked for once in each text.
function textTest(capture, word) {
  const { meta, columns } = capture;
  const matches = (texts) => Uint8Array.from(texts, (text) => text.toLowerCase().includes(word) ? 1 : 0);
  const opcodes = matches(meta.opcodes);
  const strings = matches(meta.strings);
  const repeats = matches(meta.strings.map(againText));
  let flags = 0;
  meta.flags.forEach(([id, text], bit) => {
    if (id.includes(word) || text.includes(word)) flags |= 1 << bit;
  });
  const findings = 'finding'.startsWith(word) && word.length > 3;
  return (row) => opcodes[columns.opcode[row]] === 1
    || (columns.flags[row] & flags) !== 0
    || strings[columns.note[row]] === 1
    || (repeats[columns.cause[row]] === 1 && capture.has(row, 'retransmission'))
    || strings[columns.comment[row]] === 1 || strings[columns.icrc[row]] === 1
    || (findings && capture.findingOf.has(row));
}

// The rows of `rows` that pass `text`.
function filterRows(capture, rows, text) {
  const words = text.toLowerCase().split(/\s+/).filter((word) => word !== '' && word !== '-');
  if (words.length === 0) return rows;
  const tests = words.map((word) => {
    if (!word.startsWith('-')) return wordTest(capture, word);
    const test = wordTest(capture, word.slice(1));
    return (row) => !test(row);
  });
  return rows.filter((row) => tests.every((test) => test(row)));
}

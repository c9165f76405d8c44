// One packet: what is known about it, its fields, and its bytes. Fields come from the tables of
// headers that the page carries.

class Detail {
  constructor(element, capture, selection) {
    this.element = element;
    this.capture = capture;
    this.selection = selection;
    this.fieldOfByte = [];
    element.addEventListener('pointerover', (event) => this.point(event.target));
    element.addEventListener('pointerleave', () => this.point(null));
    element.addEventListener('focusin', (event) => this.point(event.target));
  }

  show() {
    const { row } = this.selection;
    this.element.replaceChildren();
    if (row < 0) {
      this.element.append(make('p', 'empty', 'No packet selected.'));
      return;
    }
    this.element.append(this.facts(row));
    const kept = this.capture.bytesOf(row);
    if (!kept) {
      this.element.append(make('p', 'empty', 'Unpacking the bytes…'));
      return;
    }
    const pane = make('div', 'pane');
    pane.append(this.fields(row, kept), this.dump(kept));
    this.element.append(pane);
  }

  // What the packets around it tell.
  facts(row) {
    const { capture } = this;
    const { columns } = capture;
    const list = make('dl', 'facts-list');
    const add = (name, ...values) => {
      const value = make('dd');
      value.append(...values);
      list.append(make('dt', '', name), value);
    };
    const conversation = capture.meta.conversations[capture.conversationOf(row)];
    const title = make('p', 'packet-title');
    title.append(make('span', `swatch ${capture.kind(row)}`), capture.label(row));
    if (conversation) {
      const sender = capture.senderOf(row);
      add('From', endText(conversation.ends[sender]));
      add('To', endText(conversation.ends[1 - sender]));
    }
    add('Frame', `${columns.frame[row]}, ${plural(columns.wire[row], 'byte')} on the wire`);
    add('Time', `${timeText(capture.times[row])} s`);
    if (capture.has(row, 'retransmission')) add('Sent again', ...this.repeat(row));
    if (columns.round_trip[row] !== NONE) add('Round trip', spanText(columns.round_trip[row] * 10));
    if (columns.outstanding[row] !== NONE) add('On the way', `${bytesText(columns.outstanding[row])} of requests after it`);
    if (capture.text('note', row)) add('Says', capture.text('note', row));
    const flags = capture.meta.flags.filter(([id]) => capture.has(row, id) && !['response', 'retransmission', 'icrc'].includes(id));
    if (flags.length > 0) add('Marks', flags.map(([, text]) => text).join(', '));
    if (capture.text('icrc', row)) add('ICRC', capture.text('icrc', row));
    if (capture.text('comment', row)) add('Comment', capture.text('comment', row));
    const finding = capture.findingOf.get(row);
    if (finding !== undefined) {
      const { rule, title: text, meaning } = capture.meta.findings[finding];
      add('Finding', `${rule}: ${text}. ${meaning}`);
    }
    const box = make('div', 'facts-box');
    box.append(title, list);
    return box;
  }

  repeat(row) {
    const { capture } = this;
    const cause = capture.text('cause', row) || 'cause not seen';
    const frame = capture.columns.first_seen[row];
    const first = frame ? capture.rowOfFrame(frame) : -1;
    if (first < 0) return [frame ? `${cause}; first in #${frame}` : cause];
    const link = make('button', 'link', `first in #${frame}`);
    link.type = 'button';
    link.addEventListener('click', () => this.selection.jumpTo(first));
    return [`${cause}; `, link];
  }

  fields(row, kept) {
    const { meta, columns } = this.capture;
    this.fieldOfByte = [];
    const box = make('div', 'fields');
    for (const [header, at] of meta.layouts[columns.layout[row]]) {
      const layout = meta.headers[header];
      if (at + layout.length <= kept.head) this.addHeader(box, layout, at, kept.bytes);
    }
    const icrc = meta.headers[meta.icrc_header];
    if (kept.tail === icrc.length) this.addHeader(box, icrc, kept.bytes.length - kept.tail, kept.bytes);
    return box;
  }

  addHeader(box, layout, at, bytes) {
    const table = make('table', 'header');
    table.append(make('caption', '', layout.name));
    for (const field of layout.fields) {
      const from = at + (field.bit >> 3);
      const to = at + ((field.bit + field.width + 7) >> 3);
      const line = make('tr', 'field');
      line.tabIndex = -1;
      line.dataset.from = from;
      line.dataset.to = to;
      if (field.filter) line.title = field.filter;
      const name = make('th', '', field.label);
      name.scope = 'row';
      line.append(name, make('td', '', fieldText(this.capture.meta.names, field, bytes, at)));
      table.append(line);
      for (let byte = from; byte < to; byte++) (this.fieldOfByte[byte] ||= []).push(line);
    }
    box.append(table);
  }

  dump(kept) {
    const box = make('div', 'dump');
    const { bytes, head, payload, tail, leftOut } = kept;
    const body = head + payload;
    this.addBytes(box, bytes, 0, body, head);
    if (leftOut > 0) {
      const hint = payload > 0 ? '' : ' (--payload keeps it)';
      box.append(make('p', 'left-out', `${plural(leftOut, 'byte')} of payload left out${hint}`));
    }
    if (tail > 0) this.addBytes(box, bytes, body, body + tail, bytes.length);
    return box;
  }

  // Lines of 16 bytes: offset, hexadecimal, text.
  addBytes(box, bytes, from, to, head) {
    for (let line = from; line < to; line += 16) {
      const element = make('div', 'dump-line');
      element.append(make('span', 'offset', line.toString(16).padStart(4, '0')));
      const digits = make('span', 'digits');
      let text = '';
      for (let i = line; i < Math.min(line + 16, to); i++) {
        const byte = make('span', i < head ? 'byte' : 'byte payload', bytes[i].toString(16).padStart(2, '0'));
        byte.dataset.at = i;
        digits.append(byte);
        text += bytes[i] > 32 && bytes[i] < 127 ? String.fromCharCode(bytes[i]) : '·';
      }
      element.append(digits, make('span', 'ascii', text));
      box.append(element);
    }
  }

  // Marks the field and the bytes that belong to the element under the mouse or the focus.
  point(target) {
    for (const element of this.element.querySelectorAll('.marked')) element.classList.remove('marked');
    const field = target && target.closest('.field');
    const byte = target && target.closest('.byte');
    if (field) this.mark(Number(field.dataset.from), Number(field.dataset.to), [field]);
    else if (byte) {
      const fields = this.fieldOfByte[Number(byte.dataset.at)] || [];
      for (const line of fields) this.mark(Number(line.dataset.from), Number(line.dataset.to), [line]);
    }
  }

  mark(from, to, fields) {
    for (const field of fields) field.classList.add('marked');
    for (const byte of this.element.querySelectorAll('.byte')) {
      const at = Number(byte.dataset.at);
      if (at >= from && at < to) byte.classList.add('marked');
    }
  }
}

function make(tag, className = '', text = '') {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== '') element.textContent = text;
  return element;
}

// The bits of a field as a number; big-endian, as all these headers are.
function fieldBits(field, bytes, at) {
  let value = 0n;
  const first = field.bit >> 3;
  const last = (field.bit + field.width - 1) >> 3;
  for (let i = first; i <= last; i++) value = value << 8n | BigInt(bytes[at + i]);
  const below = (last + 1) * 8 - field.bit - field.width;
  return value >> BigInt(below) & (1n << BigInt(field.width)) - 1n;
}

function fieldText(names, field, bytes, at) {
  const first = at + (field.bit >> 3);
  const own = bytes.subarray(first, first + (field.width >> 3));
  switch (field.show) {
    case 'mac': return Array.from(own, (byte) => byte.toString(16).padStart(2, '0')).join(':');
    case 'ipv4': return own.join('.');
    case 'ipv6': return ipv6Text(own);
    case 'bytes': return Array.from(own, (byte) => byte.toString(16).padStart(2, '0')).join(' ');
    case 'flag': return fieldBits(field, bytes, at) === 1n ? 'yes' : 'no';
    default: return numberText(names[field.names], field, fieldBits(field, bytes, at));
  }
}

function numberText(names, field, value) {
  const number = field.show === 'hex'
    ? '0x' + value.toString(16).padStart(Math.ceil(field.width / 4), '0') : value.toString();
  const name = names && names[value];
  return name ? `${number}  ${name}` : number;
}

// RFC 5952: the longest run of zero groups becomes `::`.
function ipv6Text(bytes) {
  const groups = [];
  for (let i = 0; i < 16; i += 2) groups.push((bytes[i] << 8 | bytes[i + 1]).toString(16));
  let [start, length] = [-1, 1];
  for (let i = 0; i < 8; i++) {
    let j = i;
    while (j < 8 && groups[j] === '0') j++;
    if (j - i > length) [start, length] = [i, j - i];
  }
  if (start < 0) return groups.join(':');
  return `${groups.slice(0, start).join(':')}::${groups.slice(start + length).join(':')}`;
}

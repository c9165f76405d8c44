// The packets of the page. A row is the index of a packet; its facts are looked up in columns.

const NONE = 0xffffffff;

class Capture {
  constructor(meta, columns) {
    this.meta = meta;
    this.columns = columns;
    this.count = meta.packets;
    this.times = timesOf(columns, this.count);
    if (this.times.some((time) => time % 1000 !== 0)) timeDigits = 9;
    this.kinds = meta.kinds.map(([id]) => id);
    this.kindOf = Object.fromEntries(this.kinds.map((id, index) => [id, index]));
    this.flagOf = Object.fromEntries(meta.flags.map(([id], bit) => [id, 1 << bit]));
    this.bytes = null;
    this.byteStarts = null;
    this.rowsByConversation = new Map();
    this.findingOf = this.markFindings();
  }

  // Rows with a finding, and the index of the worst one.
  markFindings() {
    const marks = new Map();
    this.meta.findings.forEach((finding, index) => {
      for (const frame of finding.frames) {
        const row = this.rowOfFrame(frame);
        if (row >= 0 && !marks.has(row)) marks.set(row, index);
      }
    });
    return marks;
  }

  // First row of a frame, or -1 if the page does not have it.
  rowOfFrame(frame) {
    const frames = this.columns.frame;
    let low = 0;
    let high = this.count;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (frames[middle] < frame) low = middle + 1; else high = middle;
    }
    return low < this.count && frames[low] === frame ? low : -1;
  }

  // Index of the conversation, or -1.
  conversationOf(row) {
    const flow = this.meta.flows[this.columns.flow[row]];
    return flow ? flow[0] : -1;
  }

  // Which end sent it: 0 or 1.
  senderOf(row) {
    const flow = this.meta.flows[this.columns.flow[row]];
    return flow ? flow[1] : 0;
  }

  has(row, flag) {
    return (this.columns.flags[row] & this.flagOf[flag]) !== 0;
  }

  kind(row) {
    return this.kinds[this.columns.kind[row]];
  }

  psn(row) {
    return this.columns.psn_high[row] * 4294967296 + this.columns.psn_low[row];
  }

  text(column, row) {
    return this.meta.strings[this.columns[column][row]];
  }

  // Name of the packet. An ACK opcode that refuses is called a NAK.
  label(row) {
    const kind = this.columns.kind[row];
    if (kind === this.kindOf.nak || kind === this.kindOf.rnr) return this.meta.kinds[kind][1];
    return this.meta.opcodes[this.columns.opcode[row]];
  }

  // Rows of one conversation, in the order of the capture.
  rowsOf(conversation) {
    let rows = this.rowsByConversation.get(conversation);
    if (!rows) {
      const found = new Uint32Array(this.count);
      let count = 0;
      for (let row = 0; row < this.count; row++) {
        if (this.conversationOf(row) === conversation) found[count++] = row;
      }
      rows = found.slice(0, count);
      this.rowsByConversation.set(conversation, rows);
    }
    return rows;
  }

  // Payload, or what a READ asks for; empty where there can be none.
  lengthText(row) {
    const length = this.columns.length[row];
    const kind = this.kind(row);
    if (kind === 'read') return `${THOUSANDS.format(length)} asked`;
    return length === 0 && ['ack', 'nak', 'rnr', 'cnp', 'atomic', 'flush'].includes(kind)
      ? '' : THOUSANDS.format(length);
  }

  // Why a packet was sent again, in a few words.
  repeatText(row) {
    if (!this.has(row, 'retransmission')) return '';
    const first = this.columns.first_seen[row];
    return againText(this.text('cause', row)) + (first ? ` (first #${first})` : '');
  }

  // What is remarkable about a packet, most important first.
  remarks(row) {
    const remarks = [this.text('note', row), this.repeatText(row)];
    for (const flag of ['damaged', 'second', 'duplicate', 'reordered', 'gap', 'unsolicited', 'marked', 'cut']) {
      if (this.has(row, flag)) remarks.push(this.meta.flags.find(([id]) => id === flag)[1]);
    }
    if (this.has(row, 'icrc')) remarks.push(`ICRC ${this.text('icrc', row)}`);
    remarks.push(this.text('comment', row));
    return remarks.filter((text) => text !== '');
  }

  // The sort of colour that a row deserves: repeat, nak, or nothing.
  tone(row) {
    const kind = this.kind(row);
    if (this.has(row, 'damaged') || kind === 'nak') return 'nak';
    if (this.has(row, 'retransmission')) return 'repeat';
    return kind === 'rnr' ? 'rnr' : '';
  }

  // The bytes of a packet that the page has, once they are unpacked.
  bytesOf(row) {
    if (!this.bytes) return null;
    if (!this.byteStarts) this.sumBytes();
    const { head, payload, tail, left_out: leftOut } = this.columns;
    const start = this.byteStarts[row];
    const end = start + head[row] + payload[row] + tail[row];
    return {
      bytes: this.bytes.subarray(start, end),
      head: head[row],
      payload: payload[row],
      tail: tail[row],
      leftOut: leftOut[row],
    };
  }

  sumBytes() {
    const { head, payload, tail } = this.columns;
    this.byteStarts = new Float64Array(this.count);
    let sum = 0;
    for (let row = 0; row < this.count; row++) {
      this.byteStarts[row] = sum;
      sum += head[row] + payload[row] + tail[row];
    }
  }
}

function againText(cause) {
  return `again: ${cause || 'cause not seen'}`;
}

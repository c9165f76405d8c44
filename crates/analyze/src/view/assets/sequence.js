// What the plots draw: the packets that belong to the requests of one end of a conversation, both
// its requests and the answers to them, in the order of time.

// The longest wait that an RNR NAK can ask for, in nanoseconds.
const LONGEST_WAIT = 655.36e6;

class Sequence {
  constructor(capture, conversation, requester) {
    this.capture = capture;
    this.rows = sortedByTime(capture, rowsOfRequester(capture, conversation, requester));
    const count = this.rows.length;
    this.times = Float64Array.from(this.rows, (row) => capture.times[row]);
    this.kinds = Uint8Array.from(this.rows, (row) => capture.columns.kind[row]);
    [this.base, this.top] = this.range();
    this.psns = Float64Array.from(this.rows, (_, i) => this.place(i));
    this.findSpans();
    this.sortMarks();
    this.findAcknowledged();
    this.findReads();
    this.findOutstanding();
  }

  hasPsn(i) {
    return this.capture.kinds[this.kinds[i]] !== 'cnp';
  }

  // It answers nothing under way: its PSN tells nothing about the requests.
  isStray(i) {
    return this.capture.has(this.rows[i], 'unsolicited');
  }

  // The lowest PSN, and how many there are up to the highest one. A stray answer may be far away from
  // both: it counts only where there is nothing else.
  range() {
    const known = this.rows.map((_, i) => i).filter((i) => this.hasPsn(i));
    const own = known.filter((i) => !this.isStray(i));
    let [lowest, highest] = [Infinity, -Infinity];
    for (const i of own.length > 0 ? own : known) {
      const psn = this.capture.psn(this.rows[i]);
      lowest = Math.min(lowest, psn);
      highest = Math.max(highest, psn);
    }
    return lowest === Infinity ? [0, 1] : [lowest, highest - lowest + 1];
  }

  // Where a packet is drawn: at its PSN, and a stray answer no further than at the edge.
  place(i) {
    if (!this.hasPsn(i)) return 0;
    const psn = this.capture.psn(this.rows[i]) - this.base;
    return this.isStray(i) ? Math.max(0, Math.min(psn, this.top - 1)) : psn;
  }

  // How many PSNs each packet takes. A READ takes those up to the next request: its answers.
  findSpans() {
    const { capture } = this;
    const { kindOf } = capture;
    const isFirst = (row) => !capture.has(row, 'response') && !capture.has(row, 'retransmission');
    const starts = this.psns.filter((_, i) => this.hasPsn(i) && isFirst(this.rows[i])).sort();
    this.spans = this.psns.map((psn, i) => {
      if (this.kinds[i] !== kindOf.read) return this.hasPsn(i) ? 1 : 0;
      const next = lowerBound(starts, psn + 1);
      return Math.max(1, (next < starts.length ? starts[next] : this.top) - psn);
    });
  }

  // The packets by the mark that each gets: its kind, or that it was sent again.
  sortMarks() {
    const lists = new Map();
    for (let i = 0; i < this.rows.length; i++) {
      const kind = this.capture.kinds[this.kinds[i]];
      const isRepeat = this.capture.has(this.rows[i], 'retransmission') && !['nak', 'rnr', 'cnp'].includes(kind);
      const name = isRepeat ? 'repeat' : kind;
      if (!lists.has(name)) lists.set(name, []);
      lists.get(name).push(i);
    }
    this.marks = new Map();
    for (const [name, indices] of lists) {
      this.marks.set(name, { indices, times: Float64Array.from(indices, (i) => this.times[i]) });
    }
  }

  // The staircase: up to which PSN the answers seen so far acknowledge.
  findAcknowledged() {
    const { kindOf } = this.capture;
    this.acknowledged = [];
    let line = 0;
    for (let i = 0; i < this.rows.length; i++) {
      const kind = this.kinds[i];
      if (kind !== kindOf.ack && kind !== kindOf.response && kind !== kindOf.nak && kind !== kindOf.rnr) continue;
      if (this.isStray(i)) continue;
      const refuses = kind === kindOf.nak || kind === kindOf.rnr;
      const next = this.psns[i] + (refuses ? 0 : 1);
      if (next > line) {
        line = next;
        this.acknowledged.push([this.times[i], line]);
      }
    }
  }

  // READ requests: the PSNs that each reserves, and when the last of them was answered.
  findReads() {
    const { kindOf } = this.capture;
    this.reads = [];
    const open = [];
    for (let i = 0; i < this.rows.length; i++) {
      if (this.kinds[i] === kindOf.read) {
        const read = { from: this.psns[i], to: this.psns[i] + this.spans[i], begin: this.times[i], end: Infinity };
        this.reads.push(read);
        open.push(read);
      } else if (this.kinds[i] === kindOf.response && !this.isStray(i)) {
        while (open.length > 0 && open[0].to <= this.psns[i] + 1) open.shift().end = this.times[i];
      }
    }
  }

  // Nanoseconds that an RNR NAK asks for.
  wait(i) {
    return this.capture.columns.wait[this.rows[i]] * 1000;
  }

  // Positions in `marks` of the RNR NAKs in front of `time` that may still ask to wait then.
  waitsAt(marks, time) {
    return [lowerBound(marks.times, time - LONGEST_WAIT), lowerBound(marks.times, time)];
  }

  findOutstanding() {
    const column = this.capture.columns.outstanding;
    const known = this.rows.map((_, i) => i).filter((i) => column[this.rows[i]] !== NONE);
    this.outstanding = {
      times: Float64Array.from(known, (i) => this.times[i]),
      bytes: Float64Array.from(known, (i) => column[this.rows[i]]),
    };
    this.mostOutstanding = this.outstanding.bytes.reduce((most, bytes) => Math.max(most, bytes), 0);
  }

  // First and last time.
  span() {
    const count = this.times.length;
    return count === 0 ? [0, 1] : [this.times[0], Math.max(this.times[count - 1], this.times[0] + 1)];
  }

  // The row that is drawn nearest to a point. `x` and `y` give pixels.
  nearest(x, y, pixelX, pixelY, from, to) {
    let best = -1;
    let distance = Infinity;
    for (let i = from; i < to; i++) {
      const dx = pixelX(this.times[i]) - x;
      const dy = this.hasPsn(i) ? pixelY(this.psns[i] + 0.5) - y : 0;
      const square = dx * dx + dy * dy;
      if (square < distance) {
        distance = square;
        best = i;
      }
    }
    return best;
  }
}

// Requests of one end, and what the other end answers; without what tells nothing about them.
function rowsOfRequester(capture, conversation, requester) {
  const isOther = (row) => capture.has(row, 'response') || capture.kind(row) === 'cnp';
  return capture.rowsOf(conversation)
    .filter((row) => !capture.has(row, 'second') && !capture.has(row, 'disbelieved'))
    .filter((row) => (capture.senderOf(row) === requester) !== isOther(row));
}

function sortedByTime(capture, rows) {
  const { times } = capture;
  for (let i = 1; i < rows.length; i++) {
    if (times[rows[i]] < times[rows[i - 1]]) {
      return rows.slice().sort((a, b) => times[a] - times[b] || a - b);
    }
  }
  return rows;
}

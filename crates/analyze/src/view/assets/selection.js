// What the user looks at: a conversation, a packet, a filter. Panels listen for changes.

class Selection {
  constructor(capture) {
    this.capture = capture;
    this.conversation = -1;
    this.requester = 0;
    this.row = -1;
    this.filter = '';
    this.every = false;
    this.ladder = false;
    this.rows = new Uint32Array(0);
    this.listeners = [];
  }

  // `listener` gets the set of what changed: conversation, requester, rows, row.
  listen(listener) {
    this.listeners.push(listener);
  }

  tell(...changes) {
    const set = new Set(changes);
    for (const listener of this.listeners) listener(set);
  }

  chooseConversation(conversation, row = -1) {
    this.conversation = conversation;
    this.requester = this.busierEnd();
    this.findRows();
    const first = this.rows.find((other) => this.capture.conversationOf(other) === conversation);
    this.row = row >= 0 ? row : first ?? -1;
    this.tell('conversation', 'requester', 'rows', 'row');
  }

  // The end that sends more requests.
  busierEnd() {
    const { capture } = this;
    const counts = [0, 0];
    for (const row of capture.rowsOf(this.conversation)) {
      if (!capture.has(row, 'response')) counts[capture.senderOf(row)]++;
    }
    return counts[1] > counts[0] ? 1 : 0;
  }

  chooseRequester(end) {
    this.requester = end;
    this.tell('requester');
  }

  chooseEvery(every) {
    this.every = every;
    this.findRows();
    this.tell('rows');
  }

  // A ladder has two ends: it shows one conversation, whatever else is chosen.
  chooseLadder(ladder) {
    if (ladder === this.ladder) return;
    this.ladder = ladder;
    this.findRows();
    this.tell('rows');
  }

  chooseFilter(text) {
    this.filter = text;
    this.findRows();
    this.tell('rows');
  }

  findRows() {
    const { capture } = this;
    let rows;
    if (this.every && !this.ladder) {
      rows = Uint32Array.from({ length: capture.count }, (_, row) => row);
    } else {
      rows = capture.rowsOf(this.conversation);
    }
    this.rows = filterRows(capture, rows, this.filter);
  }

  // Selects a packet, and its conversation and side if another one is shown.
  chooseRow(row) {
    if (row < 0 || row >= this.capture.count || row === this.row) return;
    const conversation = this.capture.conversationOf(row);
    if (conversation !== this.conversation && conversation >= 0) {
      const every = this.every;
      this.chooseConversation(conversation, row);
      if (every) this.tell('rows');
      return;
    }
    this.row = row;
    this.tell('row');
  }

  // A packet that a finding or a link names: shown even if the filter hides it.
  jumpTo(row) {
    if (row < 0) return;
    this.chooseRow(row);
    if (this.position() < 0) this.chooseFilter('');
    this.tell('row');
  }

  // Position of the selected packet among the rows, or -1.
  position() {
    return positionOf(this.rows, this.row);
  }

  move(steps) {
    if (this.rows.length === 0) return;
    const at = nearestPosition(this.rows, this.row);
    const to = Math.max(0, Math.min(this.rows.length - 1, at + steps));
    this.chooseRow(this.rows[to]);
  }

  // The next row from here in a direction that `test` takes.
  search(direction, test) {
    const { rows } = this;
    for (let at = nearestPosition(rows, this.row) + direction; at >= 0 && at < rows.length; at += direction) {
      if (test(rows[at])) {
        this.chooseRow(rows[at]);
        return true;
      }
    }
    return false;
  }
}

// Position of the first element of a sorted array that is not less than `value`.
function lowerBound(sorted, value) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (sorted[middle] < value) low = middle + 1; else high = middle;
  }
  return low;
}

function positionOf(sorted, value) {
  const at = lowerBound(sorted, value);
  return at < sorted.length && sorted[at] === value ? at : -1;
}

function nearestPosition(sorted, value) {
  return Math.min(lowerBound(sorted, value), Math.max(0, sorted.length - 1));
}

// PSN over time as tcptrace draws sequence numbers over time.

class SequencePainter {
  constructor(capture, selection, theme) {
    this.capture = capture;
    this.selection = selection;
    this.theme = theme;
    this.sequence = null;
  }

  // The packets that are shown, with one more at each side for lines that reach in.
  visible(plot) {
    const { times } = this.sequence;
    const from = Math.max(0, lowerBound(times, plot.view.begin) - 1);
    const to = Math.min(times.length, lowerBound(times, plot.view.end) + 1);
    return [from, to];
  }

  // The PSNs that are shown: those of the visible packets.
  fit(plot) {
    const { sequence } = this;
    let [low, high] = [Infinity, -Infinity];
    const [from, to] = this.visible(plot);
    const { psns, spans } = sequence;
    for (let i = from; i < to; i++) {
      if (spans[i] === 0) continue;
      if (psns[i] < low) low = psns[i];
      if (psns[i] + spans[i] > high) high = psns[i] + spans[i];
    }
    for (const i of this.waiting(plot)) {
      low = Math.min(low, psns[i]);
      high = Math.max(high, psns[i] + spans[i]);
    }
    if (low > high) [low, high] = [0, sequence.top];
    // Room for the R above a mark at the top.
    const room = Math.max(1, (high - low) * Math.max(0.06, 20 / plot.area.height));
    this.low = low - room;
    this.high = high + room;
  }

  // RNR NAKs in front of what is shown whose wait reaches in.
  waiting(plot) {
    const { sequence } = this;
    const marks = sequence.marks.get('rnr');
    if (!marks) return [];
    const [from, to] = sequence.waitsAt(marks, plot.view.begin);
    return marks.indices.slice(from, to).filter((i) => sequence.times[i] + sequence.wait(i) > plot.view.begin);
  }

  y(plot, psn) {
    return plot.area.y + (this.high - psn) / (this.high - this.low) * plot.area.height;
  }

  draw(plot) {
    if (!this.sequence) return;
    this.fit(plot);
    const { list } = ticks(this.low, this.high, plot.area.height / 44);
    const labels = list.filter((psn) => Number.isInteger(psn))
      .map((psn) => [this.y(plot, psn), THOUSANDS.format(psn)]);
    plot.drawAxes(labels, `PSN − ${psnText(this.sequence.base)}`);
    plot.clipped((context) => {
      this.drawReads(plot, context);
      this.drawAcknowledged(plot, context);
      this.drawPackets(plot, context);
    });
  }

  drawReads(plot, context) {
    context.fillStyle = this.theme.color('kind-read');
    context.globalAlpha = 0.14;
    const pixel = (plot.view.end - plot.view.begin) / plot.area.width;
    for (const read of this.sequence.reads) {
      // The requests themselves are drawn anyway: a band of one pixel adds nothing.
      if (read.begin > plot.view.end || read.end < plot.view.begin || read.end - read.begin < pixel) continue;
      const x = plot.x(read.begin);
      const right = read.end === Infinity ? plot.area.x + plot.area.width : plot.x(read.end);
      const y = this.y(plot, read.to);
      context.fillRect(x, y, Math.max(1, right - x), Math.max(1, this.y(plot, read.from) - y));
    }
    context.globalAlpha = 1;
  }

  drawAcknowledged(plot, context) {
    const { acknowledged } = this.sequence;
    context.strokeStyle = this.theme.color('kind-ack');
    context.lineWidth = 1.25;
    context.beginPath();
    // From the last step in front of what is shown; one step for each column of pixels.
    const first = Math.max(0, lowerBoundOf(acknowledged, plot.view.begin) - 1);
    let y = this.y(plot, first > 0 ? acknowledged[first - 1][1] : 0);
    let drawnX = -Infinity;
    context.moveTo(plot.area.x, y);
    for (let at = first; at < acknowledged.length; at++) {
      const [time, psn] = acknowledged[at];
      if (time > plot.view.end) break;
      const x = Math.max(plot.x(time), plot.area.x);
      if (x - drawnX >= 0.5) {
        context.lineTo(x, y);
        y = this.y(plot, psn);
        context.lineTo(x, y);
        drawnX = x;
      } else y = this.y(plot, psn);
    }
    context.lineTo(plot.area.x + plot.area.width, y);
    context.stroke();
  }

  // Marks by colour, the rare ones on top. Where many packets share a column of pixels, each colour
  // draws one bar over their range.
  drawPackets(plot, context) {
    const { sequence } = this;
    const step = plot.area.height / (this.high - this.low);
    for (const name of PAINT_ORDER) {
      const marks = sequence.marks.get(name);
      if (!marks) continue;
      const from = name === 'rnr' ? sequence.waitsAt(marks, plot.view.begin)[0] : lowerBound(marks.times, plot.view.begin);
      const to = lowerBound(marks.times, plot.view.end);
      if (from === to) continue;
      context.fillStyle = this.theme.color(name === 'repeat' ? 'repeat' : `kind-${name}`);
      if (to - from > 2 * plot.area.width && !RARE.includes(name)) this.drawColumns(plot, context, marks, from, to, step);
      else this.drawMarks(plot, context, name, marks, from, to, step);
    }
  }

  drawColumns(plot, context, marks, from, to, step) {
    const { psns, spans } = this.sequence;
    const scale = plot.area.width / (plot.view.end - plot.view.begin);
    let [column, low, high] = [-1, 0, 0];
    const flush = () => {
      if (column < 0) return;
      const top = plot.area.y + (this.high - high) * step;
      context.fillRect(column - 1, top, 2, Math.max(3, (high - low) * step));
    };
    for (let at = from; at < to; at++) {
      const i = marks.indices[at];
      const x = Math.round(plot.area.x + (marks.times[at] - plot.view.begin) * scale);
      if (x !== column) {
        flush();
        [column, low, high] = [x, Infinity, -Infinity];
      }
      low = Math.min(low, psns[i]);
      high = Math.max(high, psns[i] + spans[i]);
    }
    flush();
  }

  drawMarks(plot, context, name, marks, from, to, step) {
    const bottom = plot.area.y + plot.area.height;
    let last = -1;
    for (let at = from; at < to; at++) {
      const i = marks.indices[at];
      const x = Math.round(plot.x(marks.times[at]));
      const y = Math.round(this.y(plot, this.sequence.psns[i]));
      // A packet on the pixels of the one before is not drawn again.
      if (x * 8192 + y === last && name !== 'read') continue;
      last = x * 8192 + y;
      if (name === 'nak') drawNak(context, x, y);
      else if (name === 'rnr') this.drawWait(plot, context, x, y, i);
      else if (name === 'cnp') drawTriangle(context, x, bottom);
      else if (name === 'ack') context.fillRect(x - 1, y - step - 1, 2, 2);
      else if (name === 'response') context.fillRect(x - 1, y - Math.max(2, step), 2, Math.max(2, step));
      else this.drawRequest(context, x, y, i, step);
    }
    if (name === 'repeat' && to - from <= 150) this.writeRepeats(plot, context, marks, from, to, step);
  }

  // A bar over the PSNs of a request; with room, the ends that tcptrace gives it.
  drawRequest(context, x, y, i, step) {
    const height = Math.max(3, step * this.sequence.spans[i]);
    context.fillRect(x - 1, y - height, 2, height);
    if (height < 8) return;
    context.fillRect(x - 3, y - height, 6, 1.5);
    context.fillRect(x - 3, y - 1.5, 6, 1.5);
  }

  drawWait(plot, context, x, y, i) {
    const { x: left, width } = plot.area;
    const length = Math.max(6, this.sequence.wait(i) / (plot.view.end - plot.view.begin) * width);
    // Only what is in the plot: from inside a long wait, its ends are far away.
    const from = Math.max(x, left);
    const to = Math.min(x + length, left + width);
    if (to > from) context.fillRect(from, y - 1.5, to - from, 3);
    context.fillRect(x - 1, y - 5, 2, 10);
  }

  writeRepeats(plot, context, marks, from, to, step) {
    context.font = '600 10px system-ui, sans-serif';
    context.textAlign = 'center';
    context.textBaseline = 'bottom';
    let lastX = -Infinity;
    for (let at = from; at < to; at++) {
      const x = plot.x(marks.times[at]);
      if (x - lastX < 8) continue;
      context.fillText('R', x, this.y(plot, this.sequence.psns[marks.indices[at]]) - Math.max(3, step) - 2);
      lastX = x;
    }
  }

  cursor(plot, point) {
    const { over, area } = plot;
    this.drawSelected(plot);
    if (!point || !this.sequence || point.x < area.x || point.x > area.x + area.width) return;
    over.strokeStyle = this.theme.color('dim');
    over.lineWidth = 1;
    over.setLineDash([3, 3]);
    plot.line(point.x, area.y, point.x, area.y + area.height, over);
    over.setLineDash([]);
    const i = this.near(plot, point);
    if (i >= 0) drawTip(plot, point, this.tip(i));
  }

  near(plot, point) {
    const [from, to] = this.visible(plot);
    return this.sequence.nearest(point.x, point.y, (time) => plot.x(time), (psn) => this.y(plot, psn), from, to);
  }

  tip(i) {
    const { capture, sequence } = this;
    const row = sequence.rows[i];
    return [`#${capture.columns.frame[row]}  ${capture.label(row)}  PSN ${psnText(capture.psn(row))}`,
      `${timeText(capture.times[row])} s`, ...capture.remarks(row).slice(0, 2)];
  }

  drawSelected(plot) {
    const { sequence, selection } = this;
    if (!sequence || selection.row < 0) return;
    const i = sequence.rows.indexOf(selection.row);
    if (i < 0) return;
    const x = plot.x(sequence.times[i]);
    if (x < plot.area.x || x > plot.area.x + plot.area.width) return;
    const { over } = plot;
    over.strokeStyle = this.theme.color('focus');
    over.lineWidth = 2;
    over.beginPath();
    const step = plot.area.height / (this.high - this.low);
    over.arc(x, this.y(plot, sequence.psns[i]) - Math.max(3, step) / 2, 7, 0, 2 * Math.PI);
    over.stroke();
  }

  select(plot, point) {
    if (!this.sequence) return;
    const i = this.near(plot, point);
    if (i >= 0) this.selection.jumpTo(this.sequence.rows[i]);
  }
}

const PAINT_ORDER = ['ack', 'response', 'unknown', 'datagram', 'flush', 'atomic', 'read', 'write', 'send',
  'repeat', 'rnr', 'nak', 'cnp'];

// Marks that are drawn one by one, however many there are.
const RARE = ['nak', 'rnr', 'cnp'];

function drawNak(context, x, y) {
  context.fillRect(x - 6, y - 1, 12, 2.5);
  context.fillRect(x - 1, y - 6, 2.5, 12);
}

function drawTriangle(context, x, bottom) {
  context.beginPath();
  context.moveTo(x - 4, bottom);
  context.lineTo(x + 4, bottom);
  context.lineTo(x, bottom - 8);
  context.closePath();
  context.fill();
}

// A box with lines of text beside the cursor.
function drawTip(plot, point, lines) {
  const { over, area, theme } = plot;
  over.font = '12px system-ui, sans-serif';
  const width = Math.max(...lines.map((line) => over.measureText(line).width)) + 16;
  const height = lines.length * 16 + 10;
  const right = point.x + 14 + width > area.x + area.width;
  const x = right ? Math.max(area.x, point.x - 14 - width) : point.x + 14;
  const y = Math.max(area.y, Math.min(point.y - height - 8, area.y + area.height - height));
  over.fillStyle = theme.color('panel');
  over.strokeStyle = theme.color('line');
  over.lineWidth = 1;
  over.beginPath();
  over.roundRect(x + 0.5, y + 0.5, width, height, 4);
  over.fill();
  over.stroke();
  over.fillStyle = theme.color('text');
  over.textAlign = 'left';
  over.textBaseline = 'top';
  lines.forEach((line, index) => over.fillText(line, x + 8, y + 6 + 16 * index));
}

// Position of the first pair whose first number is greater than `value`.
function lowerBoundOf(pairs, value) {
  let low = 0;
  let high = pairs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (pairs[middle][0] <= value) low = middle + 1; else high = middle;
  }
  return low;
}

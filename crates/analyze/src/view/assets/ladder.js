// The packets of a conversation between two vertical lines, one for each end. Every packet takes one
// step down; the time between two packets is written, not drawn to scale.

const STEP = 34;
const LADDER_TOP = 44;

class Ladder extends DrawnPackets {
  constructor(element, capture, selection, theme) {
    super(element, capture, selection);
    this.theme = theme;
    this.canvas = document.createElement('canvas');
    this.canvas.className = 'ladder-canvas';
    this.spacer = document.createElement('div');
    element.append(this.canvas, this.spacer);
    this.draws = 0;
    theme.listen(() => this.redraw());
  }

  draw() {
    const { element, canvas } = this;
    const { clientWidth: width, clientHeight: height } = element;
    if (element.hidden || width === 0) return;
    const scale = fitCanvas(canvas, width, height);
    canvas.style.width = `${width}px`;
    canvas.style.height = `${height}px`;
    // The canvas stays in view; the spacer behind it makes the element scroll.
    this.spacer.style.height = `${Math.max(0, this.wholeHeight() - height)}px`;
    const context = canvas.getContext('2d');
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.clearRect(0, 0, width, height);
    this.geometry(width);
    this.drawPackets(context, height);
    this.drawEnds(context, width, height);
    this.draws++;
  }

  wholeHeight() {
    return LADDER_TOP + this.rows.length * STEP + 16;
  }

  geometry(width) {
    this.isNarrow = width < 520;
    this.left = this.isNarrow ? 92 : 172;
    this.right = this.isNarrow ? width - 26 : width - Math.max(190, Math.min(360, width * 0.34));
    this.width = width;
  }

  drawEnds(context, width, height) {
    const { theme } = this;
    context.fillStyle = theme.color('panel');
    context.fillRect(0, 0, width, LADDER_TOP - 4);
    const conversation = this.capture.meta.conversations[this.selection.conversation];
    if (!conversation) return;
    context.fillStyle = theme.color('text');
    context.textBaseline = 'middle';
    [this.left, this.right].forEach((x, end) => {
      const { address, qpn } = conversation.ends[end];
      context.textAlign = this.isNarrow && end === 1 ? 'right' : 'center';
      const at = this.isNarrow && end === 1 ? x + 20 : x;
      context.font = '600 12px system-ui, sans-serif';
      context.fillText(address, at, 13);
      context.font = '11px system-ui, sans-serif';
      context.fillText(qpn === null ? 'QP not seen' : `QP ${hex(qpn, 6)}`, at, 29);
    });
    context.strokeStyle = theme.color('line');
    context.lineWidth = 1;
    context.beginPath();
    context.moveTo(0, LADDER_TOP - 4.5);
    context.lineTo(width, LADDER_TOP - 4.5);
    context.stroke();
  }

  drawPackets(context, height) {
    const { element, rows } = this;
    const first = Math.max(0, Math.floor(element.scrollTop / STEP) - 1);
    const last = Math.min(rows.length, first + Math.ceil(height / STEP) + 3);
    const offset = LADDER_TOP - element.scrollTop;
    context.strokeStyle = this.theme.color('line');
    context.lineWidth = 2;
    for (const x of [this.left, this.right]) {
      context.beginPath();
      context.moveTo(x, LADDER_TOP - 4);
      context.lineTo(x, Math.min(height, offset + rows.length * STEP + 8));
      context.stroke();
    }
    for (let position = first; position < last; position++) {
      this.drawPacket(context, position, offset + position * STEP);
    }
  }

  drawPacket(context, position, top) {
    const { capture, theme } = this;
    const row = this.rows[position];
    const y = top + STEP - 10;
    const tone = capture.tone(row);
    const color = theme.color(tone === 'repeat' ? 'repeat' : tone === 'nak' ? 'kind-nak' : `kind-${capture.kind(row)}`);
    if (row === this.selection.row) {
      context.fillStyle = theme.color('selected');
      context.fillRect(0, top + 1, this.width, STEP - 2);
    }
    this.drawTimes(context, row, position, y);
    this.drawArrow(context, row, y, color);
    this.drawLabel(context, row, y);
    this.drawRemarks(context, row, y, color);
  }

  drawTimes(context, row, position, y) {
    const { capture, theme } = this;
    context.font = '11px ui-monospace, monospace';
    context.textBaseline = 'middle';
    context.textAlign = 'right';
    const since = position > 0 ? capture.times[row] - capture.times[this.rows[position - 1]] : 0;
    if (!this.isNarrow) {
      context.fillStyle = theme.color('dim');
      context.textAlign = 'left';
      context.fillText(`#${capture.columns.frame[row]}`, 10, y);
      context.textAlign = 'right';
      context.fillText(timeText(capture.times[row]), this.left - 14, y);
    }
    if (position > 0) {
      // A millisecond without a packet is long for these networks: it stands out.
      context.fillStyle = theme.color(since >= 1e6 ? 'text' : 'dim');
      if (since >= 1e6) context.font = '600 11px ui-monospace, monospace';
      context.fillText(`+${spanText(since)}`, this.left - 14, y - 14);
    }
  }

  drawArrow(context, row, y, color) {
    const { capture } = this;
    const sender = capture.senderOf(row);
    const [from, to] = sender === 0 ? [this.left, this.right] : [this.right, this.left];
    const way = Math.sign(to - from);
    context.strokeStyle = color;
    context.fillStyle = color;
    context.lineWidth = 1.75;
    context.setLineDash(capture.has(row, 'retransmission') ? [7, 4] : []);
    context.beginPath();
    context.moveTo(from + way * 2, y);
    context.lineTo(to - way * 8, y);
    context.stroke();
    context.setLineDash([]);
    context.beginPath();
    context.moveTo(to - way, y);
    context.lineTo(to - way * 10, y - 4.5);
    context.lineTo(to - way * 10, y + 4.5);
    context.closePath();
    context.fill();
  }

  drawLabel(context, row, y) {
    const { capture, theme } = this;
    const length = capture.lengthText(row);
    const parts = [capture.label(row), psnText(capture.psn(row))];
    if (length !== '' && length !== '0') parts.push(`${length} B`.replace(' asked B', ' B asked'));
    context.font = '12px system-ui, sans-serif';
    context.fillStyle = theme.color('text');
    context.textAlign = 'center';
    context.textBaseline = 'alphabetic';
    context.fillText(parts.join('  ·  '), (this.left + this.right) / 2, y - 5, this.right - this.left - 24);
  }

  drawRemarks(context, row, y, color) {
    const remarks = this.capture.remarks(row);
    const finding = this.capture.findingOf.get(row);
    if (finding !== undefined) remarks.push(this.capture.meta.findings[finding].rule);
    if (remarks.length === 0) return;
    if (this.isNarrow) {
      context.fillStyle = color;
      context.beginPath();
      context.arc(this.right + 14, y, 4, 0, 2 * Math.PI);
      context.fill();
      return;
    }
    context.font = '12px system-ui, sans-serif';
    context.fillStyle = this.capture.tone(row) === '' ? this.theme.color('dim') : color;
    context.textAlign = 'left';
    context.textBaseline = 'middle';
    context.fillText(shorten(context, remarks.join('; '), this.width - this.right - 28), this.right + 16, y);
  }

  click(event) {
    const top = event.clientY - this.element.getBoundingClientRect().top;
    const position = Math.floor((top - LADDER_TOP + this.element.scrollTop) / STEP);
    if (top >= LADDER_TOP && position < this.rows.length) this.selection.chooseRow(this.rows[position]);
  }

  reveal() {
    const position = this.selection.position();
    const { element } = this;
    if (position >= 0 && !element.hidden) {
      this.spacer.style.height = `${Math.max(0, this.wholeHeight() - element.clientHeight)}px`;
      const top = position * STEP;
      const room = element.clientHeight - LADDER_TOP - STEP;
      if (top < element.scrollTop + STEP) element.scrollTop = top - STEP;
      else if (top > element.scrollTop + room - STEP) element.scrollTop = top - room + STEP;
    }
    this.redraw();
  }

  pageRows() {
    return Math.max(1, Math.floor((this.element.clientHeight - LADDER_TOP) / STEP) - 1);
  }
}

// `text`, cut so that it is no wider than `width`.
function shorten(context, text, width) {
  if (context.measureText(text).width <= width) return text;
  let low = 0;
  let high = text.length;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (context.measureText(text.slice(0, middle) + '…').width <= width) low = middle; else high = middle - 1;
  }
  return text.slice(0, low) + '…';
}

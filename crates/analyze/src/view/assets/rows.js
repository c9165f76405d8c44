// The list of packets: one element as tall as all rows, and only the rows in view inside it.

const ROW_HEIGHT = 24;
const COLUMNS = ['frame', 'time', 'delta', 'way', 'label', 'psn', 'length', 'remarks'];
const HEADS = ['No.', 'Time, s', 'Since', '', 'Packet', 'PSN', 'Bytes', 'Remarks'];

class RowList extends DrawnPackets {
  constructor(element, head, capture, selection) {
    super(element, capture, selection);
    this.spacer = document.createElement('div');
    this.spacer.className = 'spacer';
    element.append(this.spacer);
    this.pool = [];
    HEADS.forEach((text, index) => head.append(cell(COLUMNS[index], text)));
  }

  draw() {
    const { element } = this;
    if (element.hidden) return;
    element.parentElement.classList.toggle('every', this.selection.every);
    const height = `${this.rows.length * ROW_HEIGHT}px`;
    if (this.spacer.style.height !== height) this.spacer.style.height = height;
    const first = Math.max(0, Math.floor(element.scrollTop / ROW_HEIGHT) - 4);
    const count = Math.min(this.rows.length - first, Math.ceil(element.clientHeight / ROW_HEIGHT) + 8);
    while (this.pool.length < count) this.pool.push(this.makeRow());
    this.pool.forEach((line, index) => this.fill(line, index < count ? first + index : -1));
  }

  makeRow() {
    const element = document.createElement('div');
    element.className = 'row';
    element.setAttribute('role', 'option');
    const cells = COLUMNS.map((name) => cell(name, ''));
    element.append(...cells);
    this.spacer.append(element);
    return { element, cells, position: -1 };
  }

  fill(line, position) {
    const { element, cells } = line;
    element.hidden = position < 0;
    line.position = position;
    if (position < 0) return;
    const row = this.rows[position];
    element.style.transform = `translateY(${position * ROW_HEIGHT}px)`;
    element.id = `row-${row}`;
    element.setAttribute('aria-posinset', position + 1);
    element.setAttribute('aria-setsize', this.rows.length);
    element.setAttribute('aria-selected', row === this.selection.row);
    element.dataset.tone = this.capture.tone(row);
    element.dataset.kind = this.capture.kind(row);
    const finding = this.capture.meta.findings[this.capture.findingOf.get(row)];
    element.dataset.finding = finding ? finding.severity : '';
    this.texts(row, position).forEach((text, index) => {
      if (cells[index].textContent !== text) cells[index].textContent = text;
    });
    cells[7].title = cells[7].textContent;
  }

  texts(row, position) {
    const { capture } = this;
    const before = position > 0 ? capture.times[row] - capture.times[this.rows[position - 1]] : 0;
    return [
      String(capture.columns.frame[row]),
      timeText(capture.times[row]),
      position > 0 ? spanText(before) : '',
      this.wayText(row),
      capture.label(row),
      psnText(capture.psn(row)),
      capture.lengthText(row),
      capture.remarks(row).join('; '),
    ];
  }

  // Of one conversation an arrow says it all.
  wayText(row) {
    if (!this.selection.every) return this.capture.senderOf(row) === 0 ? '→' : '←';
    const conversation = this.capture.meta.conversations[this.capture.conversationOf(row)];
    return conversation ? conversation.ends[this.capture.senderOf(row)].address : '';
  }

  click(event) {
    const element = event.target.closest('.row');
    const line = this.pool.find((line) => line.element === element);
    if (line && line.position >= 0) this.selection.chooseRow(this.rows[line.position]);
  }

  // Scrolls just so far that the selected row is in view.
  reveal() {
    const position = this.selection.position();
    this.element.setAttribute('aria-activedescendant', position < 0 ? '' : `row-${this.selection.row}`);
    if (position < 0) return this.redraw();
    scrollTo(this.element, position * ROW_HEIGHT, ROW_HEIGHT, this.rows.length * ROW_HEIGHT, this.spacer);
    this.redraw();
  }

  pageRows() {
    return Math.max(1, Math.floor(this.element.clientHeight / ROW_HEIGHT) - 1);
  }
}

function cell(name, text) {
  const element = document.createElement('span');
  element.className = `cell ${name}`;
  element.textContent = text;
  return element;
}

// Brings what lies from `top` to `top + height` into the view of a scrolling element.
function scrollTo(element, top, height, whole, spacer) {
  spacer.style.height = `${whole}px`;
  const margin = Math.min(3 * height, element.clientHeight / 4);
  if (top - margin < element.scrollTop) element.scrollTop = top - margin;
  else if (top + height + margin > element.scrollTop + element.clientHeight) {
    element.scrollTop = top + height + margin - element.clientHeight;
  }
}

// Puts the page together.

const byId = (id) => document.getElementById(id);

class ViewPage {
  constructor(capture) {
    this.capture = capture;
    this.selection = new Selection(capture);
    this.theme = new Theme();
    this.view = new TimeView();
    this.help = byId('help');
    this.filter = byId('filter');
    this.conversations = new ConversationTable(byId('conversations'), capture, this.selection);
    this.findings = new FindingList(byId('findings'), capture, this.selection);
    this.list = new RowList(byId('list'), byId('list-head'), capture, this.selection);
    this.ladder = new Ladder(byId('ladder'), capture, this.selection, this.theme);
    this.detail = new Detail(byId('detail'), capture, this.selection);
    this.sequencePainter = new SequencePainter(capture, this.selection, this.theme);
    this.outstandingPainter = new OutstandingPainter(this.theme);
    this.sequencePlot = new Plot(byId('sequence'), this.view, this.theme, this.sequencePainter);
    this.outstandingPlot = new Plot(byId('outstanding'), this.view, this.theme, this.outstandingPainter);
    this.selection.listen((changes) => this.update(changes));
    this.writeHead();
    this.listen();
    this.showLadder(false);
  }

  writeHead() {
    const { meta } = this.capture;
    byId('title').textContent = meta.title;
    const span = this.capture.count > 0 ? this.capture.times.reduce((a, b) => Math.max(a, b), 0) : 0;
    const facts = [plural(meta.packets, 'packet'), `in ${plural(meta.frames, 'frame')}`, spanText(span), dateText(meta.start)];
    byId('facts').textContent = facts.filter((text) => text !== '').join('  ·  ');
    byId('notes').hidden = meta.notes.length === 0;
    for (const note of meta.notes) byId('notes').append(make('p', '', note));
    byId('conversation-count').textContent = THOUSANDS.format(this.conversations.order.length);
    byId('finding-count').textContent = THOUSANDS.format(meta.findings.length + meta.findings_left_out);
  }

  listen() {
    const click = (id, action) => byId(id).addEventListener('click', action);
    click('theme', () => this.theme.toggle());
    click('help-open', () => this.help.showModal());
    click('zoom-in', () => this.view.zoom(0.5, this.selectedTime()));
    click('zoom-out', () => this.view.zoom(2, this.selectedTime()));
    click('zoom-all', () => this.view.showAll());
    click('tab-list', () => this.showLadder(false));
    click('tab-ladder', () => this.showLadder(true));
    click('previous', () => this.selection.move(-1));
    click('next', () => this.selection.move(1));
    byId('every').addEventListener('change', (event) => this.selection.chooseEvery(event.target.checked));
    this.filter.addEventListener('input', () => this.selection.chooseFilter(this.filter.value));
    listenToKeys(this, byId('help-keys'));
  }

  update(changes) {
    if (changes.has('requester')) this.showSequence();
    if (changes.has('conversation')) this.conversations.show();
    if (changes.has('rows')) this.showRows();
    if (changes.has('row')) this.showRow();
  }

  showSequence() {
    const { conversation, requester } = this.selection;
    const sequence = new Sequence(this.capture, conversation, requester);
    this.sequencePainter.sequence = sequence;
    this.outstandingPainter.sequence = sequence;
    this.writeRequesters();
    this.writeLegend(sequence);
    this.view.setWhole(...sequence.span());
  }

  writeRequesters() {
    const { selection, capture } = this;
    const conversation = capture.meta.conversations[selection.conversation];
    const buttons = (conversation ? conversation.ends : []).map((end, index) => {
      const button = make('button', '', `requests of ${end.address}`);
      button.type = 'button';
      button.setAttribute('aria-pressed', index === selection.requester);
      button.addEventListener('click', () => selection.chooseRequester(index));
      return button;
    });
    byId('requester').replaceChildren(...buttons);
  }

  // Only what the plot has.
  writeLegend(sequence) {
    const { capture } = this;
    const present = new Set(sequence.kinds);
    const entries = capture.meta.kinds.filter((_, index) => present.has(index));
    const items = entries.map(([id, name]) => legendItem(id, name));
    if (sequence.rows.some((row) => capture.has(row, 'retransmission'))) items.push(legendItem('repeat', 'sent again'));
    byId('legend').replaceChildren(...items);
  }

  showRows() {
    const { selection } = this;
    byId('every').checked = selection.every;
    byId('every').disabled = selection.ladder;
    if (this.filter.value !== selection.filter) this.filter.value = selection.filter;
    byId('row-count').textContent = plural(selection.rows.length, 'packet');
    this.list.reveal();
    this.ladder.reveal();
  }

  showRow() {
    const { selection, capture } = this;
    this.list.reveal();
    this.ladder.reveal();
    this.detail.show();
    if (selection.row < 0) return;
    this.view.reveal(capture.times[selection.row]);
    this.sequencePlot.drawCursor();
    const frame = capture.columns.frame[selection.row];
    byId('detail-head').textContent = `Packet #${frame}`;
    byId('said').textContent = [`Packet ${frame}`, capture.label(selection.row), ...capture.remarks(selection.row)].join(', ');
  }

  selectedTime() {
    const { row } = this.selection;
    return row < 0 ? undefined : this.capture.times[row];
  }

  shownRows() {
    return byId('ladder').hidden ? this.list : this.ladder;
  }

  showLadder(ladder) {
    byId('ladder').hidden = !ladder;
    byId('list').hidden = ladder;
    byId('list-head').hidden = ladder;
    byId('tab-ladder').setAttribute('aria-selected', ladder);
    byId('tab-list').setAttribute('aria-selected', !ladder);
    this.selection.chooseLadder(ladder);
    this.list.reveal();
    this.ladder.reveal();
  }

  toggleLadder() {
    this.showLadder(byId('ladder').hidden);
  }

  escape() {
    if (this.selection.filter !== '') this.selection.chooseFilter('');
    document.activeElement.blur();
  }

  start() {
    byId('app').hidden = false;
    if (this.conversations.order.length > 0) this.selection.chooseConversation(this.conversations.order[0]);
    else this.selection.chooseEvery(true);
    this.detail.show();
  }
}

function legendItem(id, name) {
  const item = make('span', 'legend-item');
  item.append(make('span', `swatch ${id}`), name);
  return item;
}

async function start() {
  const meta = JSON.parse(textOf('meta'));
  const packed = await readSection('columns', meta.compressed);
  const page = new ViewPage(new Capture(meta, columnsOf(meta, packed)));
  page.start();
  // The bytes are many and are seen one packet at a time: they may come later.
  page.capture.bytes = await readSection('bytes', meta.compressed);
  page.detail.show();
  document.documentElement.dataset.ready = 'yes';
}

start().catch((error) => {
  byId('failure').hidden = false;
  byId('failure').textContent = `This page cannot be shown. ${error.message}`;
  throw error;
});

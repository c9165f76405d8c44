// The tables at the side: conversations and findings. Both are lists of buttons.

const SHOWN_AT_MOST = 500;

class ConversationTable {
  constructor(element, capture, selection) {
    this.element = element;
    this.selection = selection;
    const { conversations } = capture.meta;
    const size = ({ packets }) => packets[0] + packets[1];
    this.order = conversations.map((_, index) => index)
      .filter((index) => size(conversations[index]) > 0)
      .sort((a, b) => size(conversations[b]) - size(conversations[a]));
    this.buttons = new Map();
    for (const index of this.order.slice(0, SHOWN_AT_MOST)) {
      const button = conversationButton(conversations[index]);
      button.addEventListener('click', () => selection.chooseConversation(index));
      this.buttons.set(index, button);
      element.append(button);
    }
    const hidden = this.order.length - this.buttons.size;
    if (hidden > 0) element.append(make('p', 'empty', `${plural(hidden, 'smaller conversation')} not listed; a filter finds their packets.`));
  }

  show() {
    for (const [index, button] of this.buttons) {
      const isCurrent = index === this.selection.conversation;
      button.setAttribute('aria-pressed', isCurrent);
      if (isCurrent) button.scrollIntoView({ block: 'nearest' });
    }
  }

  move(steps) {
    const at = this.order.indexOf(this.selection.conversation);
    const to = Math.max(0, Math.min(this.order.length - 1, at + steps));
    if (to !== at && this.order.length > 0) this.selection.chooseConversation(this.order[to]);
  }
}

function conversationButton(conversation) {
  const button = make('button', 'item');
  button.type = 'button';
  if (conversation.paired_by) button.title = `Directions paired by ${conversation.paired_by}`;
  const head = make('span', 'item-head');
  head.append(make('span', 'service', conversation.service), ...endPair(conversation.ends));
  button.append(head, itemFacts(conversation));
  return button;
}

function endPair(ends) {
  const one = (end) => {
    const box = make('span', 'end');
    box.append(make('span', 'address', end.address));
    box.append(make('span', 'qpn', end.qpn === null ? 'QP ?' : `QP ${hex(end.qpn, 6)}`));
    return box;
  };
  return [one(ends[0]), make('span', 'both', '↔'), one(ends[1])];
}

function itemFacts(conversation) {
  const sum = (name) => conversation[name][0] + conversation[name][1];
  const facts = make('span', 'item-facts');
  const add = (text, className = '') => facts.append(make('span', className, text));
  add(plural(sum('packets'), 'packet'));
  add(bytesText(sum('payload')));
  if (conversation.time) add(spanText(conversation.time[1] - conversation.time[0]));
  if (sum('retransmissions')) add(`${THOUSANDS.format(sum('retransmissions'))} sent again`, 'tone-repeat');
  if (sum('naks')) add(plural(sum('naks'), 'NAK'), 'tone-nak');
  if (sum('rnrs')) add(plural(sum('rnrs'), 'RNR NAK'), 'tone-rnr');
  if (sum('cnps')) add(plural(sum('cnps'), 'CNP'), 'tone-cnp');
  if (sum('marked')) add(`${THOUSANDS.format(sum('marked'))} CE`, 'tone-cnp');
  if (sum('damaged')) add(`${THOUSANDS.format(sum('damaged'))} damaged`, 'tone-nak');
  return facts;
}

class FindingList {
  constructor(element, capture, selection) {
    const { findings, findings_left_out: leftOut } = capture.meta;
    this.capture = capture;
    this.selection = selection;
    this.jumps = [];
    if (findings.length === 0) element.append(make('p', 'empty', 'Nothing found.'));
    for (const finding of findings.slice(0, SHOWN_AT_MOST)) element.append(this.item(finding));
    const hidden = leftOut + Math.max(0, findings.length - SHOWN_AT_MOST);
    if (hidden > 0) element.append(make('p', 'empty', `${plural(hidden, 'more finding')} not listed.`));
  }

  item(finding) {
    const row = finding.frames.map((frame) => this.capture.rowOfFrame(frame)).find((row) => row >= 0);
    const button = make('button', `item finding ${finding.severity}`);
    button.type = 'button';
    button.disabled = row === undefined;
    const head = make('span', 'item-head');
    head.append(make('span', 'severity', finding.severity), make('span', 'rule', finding.rule));
    if (finding.frames.length > 0) head.append(make('span', 'place', `#${finding.frames[0]}`));
    button.append(head);
    if (finding.title) button.append(make('span', 'item-title', finding.title));
    if (finding.text) button.append(make('span', 'item-text', finding.text));
    if (finding.meaning) button.title = finding.meaning;
    if (row !== undefined) {
      this.jumps.push(row);
      button.addEventListener('click', () => this.selection.jumpTo(row));
    }
    return button;
  }

  // The next packet with a finding, in either direction, of any conversation.
  move(direction) {
    const rows = [...new Set(this.jumps)].sort((a, b) => a - b);
    const { row } = this.selection;
    const next = direction > 0 ? rows.find((other) => other > row) : rows.reverse().find((other) => other < row);
    if (next !== undefined) this.selection.jumpTo(next);
  }
}

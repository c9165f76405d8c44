// The keyboard. Each entry: keys, what they do for the help, and the action.

function keyTable(page) {
  const { selection, view } = page;
  const rows = () => page.shownRows();
  const move = (steps) => () => selection.move(steps);
  const search = (direction, test) => () => selection.search(direction, test);
  const isRepeat = (row) => page.capture.has(row, 'retransmission');
  return [
    [['j', 'ArrowDown'], 'next packet', move(1)],
    [['k', 'ArrowUp'], 'packet before', move(-1)],
    [['PageDown'], 'a page down', () => selection.move(rows().pageRows())],
    [['PageUp'], 'a page up', () => selection.move(-rows().pageRows())],
    [['g', 'Home'], 'first packet', move(-Infinity)],
    [['G', 'End'], 'last packet', move(Infinity)],
    [['n'], 'next finding', () => page.findings.move(1)],
    [['N'], 'finding before', () => page.findings.move(-1)],
    [['r'], 'next retransmission', search(1, isRepeat)],
    [['R'], 'retransmission before', search(-1, isRepeat)],
    [[']'], 'next conversation', () => page.conversations.move(1)],
    [['['], 'conversation before', () => page.conversations.move(-1)],
    [['s'], 'requests of the other end', () => selection.chooseRequester(1 - selection.requester)],
    [['a'], 'list of every conversation, or of one', () => selection.chooseEvery(!selection.every)],
    [['l'], 'ladder, or list', () => page.toggleLadder()],
    [['/'], 'filter', () => page.filter.focus()],
    [['+', '='], 'zoom in', () => view.zoom(0.5, page.selectedTime())],
    [['-'], 'zoom out', () => view.zoom(2, page.selectedTime())],
    [['ArrowLeft'], 'earlier', () => view.pan(-0.2)],
    [['ArrowRight'], 'later', () => view.pan(0.2)],
    [['0'], 'show all of the time', () => view.showAll()],
    [['t'], 'light, dark', () => page.theme.toggle()],
    [['?'], 'these keys', () => page.help.showModal()],
    [['Escape'], 'clear the filter, leave the field', () => page.escape()],
  ];
}

const KEY_NAMES = { ArrowDown: '↓', ArrowUp: '↑', ArrowLeft: '←', ArrowRight: '→', Escape: 'Esc', PageUp: 'PgUp', PageDown: 'PgDn' };

function listenToKeys(page, list) {
  const table = keyTable(page);
  for (const [keys, text] of table) {
    const names = make('dt');
    names.append(...keys.filter((key) => key !== '=').map((key) => make('kbd', '', KEY_NAMES[key] || key)));
    list.append(names, make('dd', '', text));
  }
  addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || page.help.open) return;
    const typing = event.target === page.filter;
    if (typing && !['Escape', 'ArrowDown', 'ArrowUp', 'PageDown', 'PageUp'].includes(event.key)) return;
    const entry = table.find(([keys]) => keys.includes(event.key));
    if (!entry) return;
    event.preventDefault();
    entry[2]();
  });
}

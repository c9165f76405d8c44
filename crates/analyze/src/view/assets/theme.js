// Light and dark. The colours are custom properties of the style sheet; canvases read them here.

const THEMES = ['', 'light', 'dark'];

class Theme {
  constructor() {
    this.listeners = [];
    this.choice = 0;
    const changed = () => this.tell();
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', changed);
    // Paper is white.
    addEventListener('beforeprint', () => this.apply('light'));
    addEventListener('afterprint', () => this.apply(THEMES[this.choice]));
    this.read();
  }

  listen(listener) {
    this.listeners.push(listener);
  }

  tell() {
    this.read();
    for (const listener of this.listeners) listener();
  }

  // From what the system says to its opposite, then back.
  toggle() {
    const dark = matchMedia('(prefers-color-scheme: dark)').matches;
    this.choice = this.choice === 0 ? (dark ? 1 : 2) : 0;
    this.apply(THEMES[this.choice]);
  }

  apply(name) {
    if (name) document.documentElement.dataset.theme = name;
    else delete document.documentElement.dataset.theme;
    this.tell();
  }

  read() {
    const style = getComputedStyle(document.documentElement);
    this.cache = new Map();
    this.color = (name) => {
      if (!this.cache.has(name)) this.cache.set(name, style.getPropertyValue(`--${name}`).trim());
      return this.cache.get(name);
    };
  }
}

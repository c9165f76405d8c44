// What draws itself into an element: at most once per frame, however often it is asked to.

class Drawn {
  constructor(element) {
    this.element = element;
    this.wanted = false;
    new ResizeObserver(() => this.redraw()).observe(element);
  }

  redraw() {
    if (this.wanted) return;
    this.wanted = true;
    requestAnimationFrame(() => {
      this.wanted = false;
      this.draw();
    });
  }
}

// The packets of a selection, in an element that scrolls.
class DrawnPackets extends Drawn {
  constructor(element, capture, selection) {
    super(element);
    this.capture = capture;
    this.selection = selection;
    element.addEventListener('scroll', () => this.redraw());
    element.addEventListener('click', (event) => this.click(event));
  }

  get rows() {
    return this.selection.rows;
  }
}

// Gives a canvas as many pixels as the screen has for `width` by `height`; how many for one.
function fitCanvas(canvas, width, height) {
  const scale = devicePixelRatio || 1;
  const [wide, high] = [Math.round(width * scale), Math.round(height * scale)];
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide;
    canvas.height = high;
  }
  return scale;
}

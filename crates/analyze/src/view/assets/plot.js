// A canvas with axes over time: drawing once per frame, wheel, drag and keys. A second canvas above
// it carries the cursor, so that moving the mouse draws no packets.

class Plot extends Drawn {
  // `painter` has draw(plot), cursor(plot, x, y) and select(plot, x, y).
  constructor(element, view, theme, painter) {
    super(element);
    this.view = view;
    this.theme = theme;
    this.painter = painter;
    this.margin = { left: 76, right: 14, top: 10, bottom: 24 };
    this.base = this.addCanvas();
    this.over = this.addCanvas();
    this.point = null;
    this.draws = 0;
    view.listen(() => this.redraw());
    theme.listen(() => this.redraw());
    this.listenToPointer();
  }

  addCanvas() {
    const canvas = document.createElement('canvas');
    this.element.append(canvas);
    return canvas.getContext('2d');
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.element;
    if (width === 0 || height === 0) return;
    for (const context of [this.base, this.over]) {
      const scale = fitCanvas(context.canvas, width, height);
      context.setTransform(scale, 0, 0, scale, 0, 0);
      context.clearRect(0, 0, width, height);
      context.font = '11px system-ui, sans-serif';
    }
    const { left, right, top, bottom } = this.margin;
    this.area = { x: left, y: top, width: Math.max(1, width - left - right), height: Math.max(1, height - top - bottom) };
    this.painter.draw(this);
    this.draws++;
    this.drawCursor();
  }

  x(time) {
    return this.area.x + (time - this.view.begin) / (this.view.end - this.view.begin) * this.area.width;
  }

  timeAt(x) {
    return this.view.begin + (x - this.area.x) / this.area.width * (this.view.end - this.view.begin);
  }

  // Grid and labels. `yTicks` are [y in pixels, text].
  drawAxes(yTicks, title) {
    const { base: context, area, theme, view } = this;
    context.lineWidth = 1;
    context.strokeStyle = theme.color('grid');
    context.fillStyle = theme.color('dim');
    context.textAlign = 'right';
    context.textBaseline = 'middle';
    for (const [y, text] of yTicks) {
      this.line(area.x, Math.round(y) + 0.5, area.x + area.width, Math.round(y) + 0.5);
      context.fillText(text, area.x - 8, y);
    }
    context.textAlign = 'center';
    context.textBaseline = 'top';
    const { step, list } = ticks(view.begin, view.end, area.width / 110);
    for (const time of list) {
      const x = Math.round(this.x(time)) + 0.5;
      this.line(x, area.y, x, area.y + area.height);
      if (x > area.x + 20 && x < area.x + area.width - 20) {
        context.fillText(timeTick(time, step, view.end - view.begin), x, area.y + area.height + 7);
      }
    }
    context.save();
    context.translate(12, area.y + area.height / 2);
    context.rotate(-Math.PI / 2);
    context.textBaseline = 'middle';
    context.fillText(title, 0, 0);
    context.restore();
  }

  line(x0, y0, x1, y1, context = this.base) {
    context.beginPath();
    context.moveTo(x0, y0);
    context.lineTo(x1, y1);
    context.stroke();
  }

  // Draws with everything outside the axes cut off.
  clipped(draw) {
    const { base: context, area } = this;
    context.save();
    context.beginPath();
    context.rect(area.x, area.y, area.width, area.height);
    context.clip();
    draw(context);
    context.restore();
  }

  drawCursor() {
    const { over, element } = this;
    over.clearRect(0, 0, element.clientWidth, element.clientHeight);
    if (this.area) this.painter.cursor(this, this.point);
  }

  listenToPointer() {
    const { element, view } = this;
    let drag = null;
    const at = (event) => {
      const box = element.getBoundingClientRect();
      return { x: event.clientX - box.left, y: event.clientY - box.top };
    };
    element.addEventListener('wheel', (event) => {
      event.preventDefault();
      if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) view.pan(event.deltaX / this.area.width);
      else view.zoom(Math.exp(event.deltaY * 0.0015), this.timeAt(at(event).x));
    }, { passive: false });
    element.addEventListener('pointerdown', (event) => {
      drag = { x: at(event).x, moved: false };
      element.setPointerCapture(event.pointerId);
    });
    element.addEventListener('pointermove', (event) => {
      this.point = at(event);
      if (drag && (drag.moved || Math.abs(this.point.x - drag.x) > 4)) {
        view.pan((drag.x - this.point.x) / this.area.width);
        drag = { x: this.point.x, moved: true };
      }
      this.drawCursor();
    });
    element.addEventListener('pointerup', (event) => {
      if (drag && !drag.moved) this.painter.select(this, at(event));
      drag = null;
    });
    element.addEventListener('pointerleave', () => {
      this.point = null;
      this.drawCursor();
    });
    element.addEventListener('dblclick', () => view.showAll());
  }
}

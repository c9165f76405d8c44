// Bytes of requests on the way over time.

class OutstandingPainter {
  constructor(theme) {
    this.theme = theme;
    this.sequence = null;
  }

  draw(plot) {
    if (!this.sequence) return;
    const top = Math.max(1, this.sequence.mostOutstanding) * 1.1;
    const y = (bytes) => plot.area.y + plot.area.height * (1 - bytes / top);
    const unit = 1024 ** Math.floor(Math.log2(top) / 10);
    const { list } = ticks(0, top / unit, Math.max(2, plot.area.height / 30));
    plot.drawAxes(list.map((value) => [y(value * unit), bytesText(value * unit)]), 'outstanding');
    if (this.sequence.outstanding.times.length > 0) plot.clipped((context) => this.drawSteps(plot, context, y));
    else this.drawNothing(plot);
  }

  drawNothing(plot) {
    const { base, area } = plot;
    base.fillStyle = this.theme.color('dim');
    base.textAlign = 'center';
    base.textBaseline = 'middle';
    base.fillText('not known: this needs requests and their answers', area.x + area.width / 2, area.y + area.height / 2);
  }

  drawSteps(plot, context, y) {
    const { times, bytes } = this.sequence.outstanding;
    context.strokeStyle = this.theme.color('kind-write');
    context.fillStyle = this.theme.color('kind-write');
    context.lineWidth = 1.25;
    context.beginPath();
    const first = Math.max(0, lowerBound(times, plot.view.begin) - 1);
    const last = lowerBound(times, plot.view.end);
    let level = first > 0 ? bytes[first - 1] : 0;
    let [column, low, high] = [-Infinity, 0, 0];
    // What happened within one column of pixels becomes one stroke over its range.
    const stroke = () => {
      if (low === high) return;
      context.lineTo(column, y(low));
      context.lineTo(column, y(high));
      context.lineTo(column, y(level));
    };
    context.moveTo(plot.area.x, y(level));
    for (let i = first; i < last; i++) {
      const x = Math.round(Math.max(plot.x(times[i]), plot.area.x) * 2) / 2;
      if (x !== column) {
        stroke();
        context.lineTo(x, y(level));
        column = x;
        low = high = level;
      }
      level = bytes[i];
      if (level < low) low = level;
      if (level > high) high = level;
    }
    stroke();
    const right = Math.min(plot.x(times[times.length - 1]), plot.area.x + plot.area.width);
    context.lineTo(right, y(level));
    context.stroke();
    context.lineTo(right, y(0));
    context.lineTo(plot.area.x, y(0));
    context.globalAlpha = 0.12;
    context.fill();
    context.globalAlpha = 1;
  }

  cursor(plot, point) {
    const { over, area } = plot;
    if (!point || !this.sequence || point.x < area.x || point.x > area.x + area.width) return;
    over.strokeStyle = this.theme.color('dim');
    over.lineWidth = 1;
    over.setLineDash([3, 3]);
    plot.line(point.x, area.y, point.x, area.y + area.height, over);
    over.setLineDash([]);
    const { times, bytes } = this.sequence.outstanding;
    const at = lowerBound(times, plot.timeAt(point.x)) - 1;
    if (at >= 0) drawTip(plot, point, [`${timeText(times[at])} s`, bytesText(bytes[at])]);
  }

  select() {}
}

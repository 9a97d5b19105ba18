// One picture of the viewer: canvas, cursor above it, legend and sentence below it.
'use strict';
SPARE.Pane = class {
  constructor(figure) {
    this.figure = figure;
    this.board = figure.querySelector('.board');
    this.canvas = figure.querySelector('canvas');
    this.over = figure.querySelector('canvas.over');
    this.legend = figure.querySelector('.legend');
    this.words = figure.querySelector('figcaption');
    this.badge = figure.querySelector('.badge');
    this.title = figure.querySelector('.title');
    this.painter = new SPARE.Painter(this.canvas);
    this.writeSoon = SPARE.throttle(() => this.#write());
  }

  show(layer, title) {
    this.painter.paint(layer);
    if (this.title.textContent !== title) this.title.textContent = this.figure.ariaLabel = title;
    const another = this.layer?.name !== layer.name;
    this.layer = layer;
    if (another) this.#write(); else this.writeSoon();
  }

  #write() {
    const {sentence, legend} = this.layer;
    if (this.words.textContent !== sentence) {
      this.words.textContent = sentence;
      this.canvas.setAttribute('aria-label', sentence);
    }
    if (this.shownLegend !== legend) {
      this.legend.innerHTML = legend;
      this.shownLegend = legend;
    }
  }

  // The token under a pointer, null beside the grid.
  token(event) {
    const box = this.over.getBoundingClientRect(), grid = SPARE.state.data.grid;
    const col = Math.floor(((event.clientX - box.left) * grid.width / box.width - grid.x) / grid.patch);
    const row = Math.floor(((event.clientY - box.top) * grid.height / box.height - grid.y) / grid.patch);
    const token = SPARE.state.data.at(row, col);
    return token < 0 ? null : token;
  }

  // How far below the window's top a patch begins, in pixels.
  heightOf(token) {
    const box = this.over.getBoundingClientRect(), {height} = SPARE.state.data.grid;
    return box.top + this.painter.top(token) * box.height / height;
  }

  // The cursor's frame and the lines to those who stand in for its patch, of some slots.
  mark({data, cursor, lit, tints, lines}, slots) {
    const {grid} = data, ctx = this.over.getContext('2d'), bare = cursor === null || !lit;
    if (this.over.width !== grid.width || this.over.height !== grid.height) {
      Object.assign(this.over, {width: grid.width, height: grid.height});
    }
    // A canvas that is cleared is composed anew, though it showed nothing.
    if (bare && this.bare) return;
    this.bare = bare;
    ctx.clearRect(0, 0, grid.width, grid.height);
    if (bare) return;
    const {painter} = this, isShown = ({slot}) => slots.includes(slot);
    for (const {token, share, colour} of tints.filter(isShown)) {
      ctx.globalAlpha = 0.2 + 0.6 * share;
      ctx.fillStyle = colour;
      ctx.fillRect(painter.left(token), painter.top(token), grid.patch, grid.patch);
    }
    ctx.globalAlpha = 1;
    const middle = (token) => [painter.left(token), painter.top(token)].map((c) => c + grid.patch / 2);
    for (const {from, to, width, colour} of lines.filter(isShown)) {
      for (const [style, wide] of [['#fff', width + 3], [colour, width]]) {
        ctx.strokeStyle = style;
        ctx.lineWidth = wide;
        ctx.lineCap = 'round';
        ctx.beginPath();
        ctx.moveTo(...middle(from));
        ctx.lineTo(...middle(to));
        ctx.stroke();
      }
      ctx.fillStyle = colour;
      ctx.beginPath();
      ctx.arc(...middle(to), 2 + width, 0, 7);
      ctx.fill();
    }
    const x = painter.left(cursor), y = painter.top(cursor);
    for (const [style, wide] of [['#000', 6], ['#ffd400', 3]]) {
      ctx.strokeStyle = style;
      ctx.lineWidth = wide;
      ctx.strokeRect(x - 1, y - 1, grid.patch + 2, grid.patch + 2);
    }
  }
};

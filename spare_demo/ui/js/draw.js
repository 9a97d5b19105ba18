// The canvas: the photo's three versions, and layers painted token by token where they changed.
'use strict';

// The photo as it is, dimmed, and as the grey ground of a map; render/canvas.py draws the same. The
// last two are made when they are first asked for.
SPARE.Ground = class {
  #dim = null;
  #grey = null;

  constructor(photo, grid) {
    this.grid = grid;
    this.photo = this.#sheet({willReadFrequently: true});
    this.photo.getContext('2d').drawImage(photo, 0, 0);
    this.hatches = {};
  }

  get dim() { return (this.#dim ??= this.#without(0.35, 0)); }

  get grey() { return (this.#grey ??= this.#without(0.65, 45)); }

  #sheet(options) {
    const sheet = document.createElement('canvas');
    Object.assign(sheet, {width: this.grid.width, height: this.grid.height});
    sheet.getContext('2d', options);
    return sheet;
  }

  // Without its colours, of this contrast and this much lighter. What is padded there is grey, and
  // keeps its lightness where nothing is made lighter. Drawn, since some browsers hide who visits
  // and give noise to a page that reads pixels.
  #without(contrast, lighter) {
    const {tokens, cols, x, y, patch, photos} = this.grid;
    const sheet = this.#sheet(), ctx = sheet.getContext('2d');
    const [cells, onPhoto] = [new Path2D(), new Path2D()];
    tokens.forEach((token, cell) => {  // below 0 between two views
      if (token >= 0) cells.rect(x + (cell % cols) * patch, y + Math.floor(cell / cols) * patch, patch, patch);
    });
    for (const [left, top, right, bottom] of photos) onPhoto.rect(left, top, right - left, bottom - top);
    ctx.drawImage(this.photo, 0, 0);
    ctx.save();
    ctx.clip(onPhoto);
    ctx.globalCompositeOperation = 'saturation';
    ctx.fill(cells);
    if (lighter) ctx.restore();  // what is padded gets lighter too
    const light = Math.round(lighter / (1 - contrast));
    Object.assign(ctx, {globalCompositeOperation: 'source-over', globalAlpha: 1 - contrast,
                        fillStyle: `rgb(${light} ${light} ${light})`});
    ctx.fill(cells);
    return sheet;
  }

  // One token with its top right corner in the colour behind a white line, as `corner_hatch` in
  // render/marks.py.
  hatch(colour) {
    if (this.hatches[colour]) return this.hatches[colour];
    const p = this.grid.patch, tile = document.createElement('canvas');
    Object.assign(tile, {width: p, height: p});
    const ctx = tile.getContext('2d');
    const start = p - Math.max(3, Math.floor(p * 3 / 5)), edge = Math.max(1, Math.floor(p / 14));
    for (let y = 0; y < p; y++) {
      for (let x = 0; x < p; x++) {
        const depth = x - y - start;
        ctx.fillStyle = depth < edge ? '#fff' : colour;
        if (depth >= 0) ctx.fillRect(x, y, 1, 1);
      }
    }
    return (this.hatches[colour] = tile);
  }
};

// Paints layers on one canvas. A layer is {base, name, keys(into), cell(paint, token, key)}: the key
// of a token says all that its pixels depend on, so that only what changed is painted again; it is 0
// where they are those of the base, and no cell is asked for. Keys are whole numbers below 2^30, and
// nothing is made for a single token: what a frame throws away by the thousand is collected later,
// all at once, and that stops the page for longer than a frame.
SPARE.Painter = class {
  constructor(canvas) {
    this.canvas = canvas;
    this.ctx = canvas.getContext('2d');
    this.shown = null;
    this.painted = null;  // the very layer that is on the canvas
  }

  set(ground) {
    this.ground = ground;
    this.grid = ground.grid;
    Object.assign(this.canvas, {width: ground.grid.width, height: ground.grid.height});
    this.keys = new Int32Array(ground.grid.tokens.filter((token) => token >= 0).length);
    this.next = new Int32Array(this.keys.length);
    this.shown = this.painted = null;
    this.line = Math.max(this.grid.patch < 12 ? 1 : 2, Math.round(this.grid.patch / 13));
  }

  paint(layer) {
    if (this.painted === layer) return;
    this.painted = layer;
    const {keys, next} = this, n = keys.length;
    layer.keys(next);
    let bare = 0;  // cells that are to show the base again
    for (let token = 0; token < n; token++) if (!next[token] && keys[token]) bare++;
    if (this.shown !== layer.name || bare > n / 8) {  // all at once costs less than so many
      this.ctx.drawImage(this.ground[layer.base], 0, 0);
      keys.fill(0);
      this.shown = layer.name;
    }
    for (let token = 0; token < n; token++) {
      const key = next[token];
      if (key === keys[token]) continue;
      keys[token] = key;
      if (key) layer.cell(this, token, key); else this.copy(token, layer.base);
    }
  }

  left(token) {
    const {x, cols, patch, cells} = this.grid;
    return x + ((cells ? cells[token] : token) % cols) * patch;
  }

  top(token) {
    const {y, cols, patch, cells} = this.grid;
    return y + Math.floor((cells ? cells[token] : token) / cols) * patch;
  }

  // The token's square of one of the ground's sheets.
  copy(token, sheet, opacity = 1) {
    const x = this.left(token), y = this.top(token), p = this.grid.patch;
    this.ctx.globalAlpha = opacity;
    this.ctx.drawImage(this.ground[sheet], x, y, p, p, x, y, p, p);
    this.ctx.globalAlpha = 1;
  }

  fill(token, colour, opacity) {
    const p = this.grid.patch;
    this.ctx.globalAlpha = opacity;
    this.ctx.fillStyle = colour;
    this.ctx.fillRect(this.left(token), this.top(token), p, p);
    this.ctx.globalAlpha = 1;
  }

  // A line along the inner edge; two neighbours of one kind (the lowest bits) share it, half each.
  outline(token, colour, width, bits, inset = 0) {
    const x = this.left(token) + inset, y = this.top(token) + inset, long = this.grid.patch - 2 * inset;
    const half = inset ? width : Math.max(1, Math.floor(width / 2));
    const below = bits & 2 ? half : width, right = bits & 8 ? half : width;
    this.ctx.fillStyle = colour;
    this.ctx.fillRect(x, y, long, bits & 1 ? half : width);
    this.ctx.fillRect(x, y + long - below, long, below);
    this.ctx.fillRect(x, y, bits & 4 ? half : width, long);
    this.ctx.fillRect(x + long - right, y, right, long);
  }

  hatch(token, colour) {
    this.ctx.drawImage(this.ground.hatch(colour), this.left(token), this.top(token));
  }

  write(token, text, colour) {
    const p = this.grid.patch;
    this.ctx.fillStyle = colour;
    this.ctx.font = `${Math.max(6, Math.round(p * (text.length > 2 ? 0.42 : 0.5)))}px system-ui`;
    this.ctx.textAlign = 'center';
    this.ctx.textBaseline = 'middle';
    this.ctx.fillText(text, this.left(token) + p / 2, this.top(token) + p / 2 + 1);
  }
};

// The canvas: the photo's three versions, and layers painted token by token where they changed.
'use strict';

// The photo as it is, dimmed, and as the grey ground of a map; render/canvas.py draws the same.
SPARE.Ground = class {
  constructor(photo, grid) {
    this.grid = grid;
    this.photo = SPARE.Ground.#sheet(photo, grid);
    this.dim = SPARE.Ground.#sheet(photo, grid);
    this.grey = SPARE.Ground.#sheet(photo, grid);
    const {width, height} = grid;
    const seen = this.photo.getContext('2d').getImageData(0, 0, width, height);
    const dim = new ImageData(new Uint8ClampedArray(seen.data), width);
    const grey = new ImageData(new Uint8ClampedArray(seen.data), width);
    const onPhoto = (x, y) => grid.photos.some(
      ([left, top, right, bottom]) => x >= left && x < right && y >= top && y < bottom);
    for (let cell = 0; cell < grid.tokens.length; cell++) {
      if (grid.tokens[cell] < 0) continue;  // between two views
      const x0 = grid.x + (cell % grid.cols) * grid.patch;
      const y0 = grid.y + Math.floor(cell / grid.cols) * grid.patch;
      const whole = onPhoto(x0, y0) && onPhoto(x0 + grid.patch - 1, y0 + grid.patch - 1);
      for (let y = y0; y < y0 + grid.patch; y++) {
        for (let x = x0; x < x0 + grid.patch; x++) {
          const at = 4 * (y * width + x), pixel = seen.data;
          const light = 0.299 * pixel[at] + 0.587 * pixel[at + 1] + 0.114 * pixel[at + 2];
          const inside = whole || onPhoto(x, y);
          const soft = inside ? Math.round(light * 0.65 + 45) : Math.floor(pixel[at] * 0.65 + 45);
          for (let c = 0; c < 3; c++) {
            if (inside) dim.data[at + c] = Math.round(light * 0.35);
            grey.data[at + c] = soft;
          }
        }
      }
    }
    this.dim.getContext('2d').putImageData(dim, 0, 0);
    this.grey.getContext('2d').putImageData(grey, 0, 0);
    this.hatches = {};
  }

  static #sheet(photo, {width, height}) {
    const sheet = document.createElement('canvas');
    Object.assign(sheet, {width, height});
    sheet.getContext('2d', {willReadFrequently: true}).drawImage(photo, 0, 0);
    return sheet;
  }

  // One token of diagonal stripes in the top right corner.
  hatch(colour) {
    if (this.hatches[colour]) return this.hatches[colour];
    const p = this.grid.patch, tile = document.createElement('canvas');
    Object.assign(tile, {width: p, height: p});
    const ctx = tile.getContext('2d');
    ctx.fillStyle = colour;
    const start = p - Math.max(3, Math.floor(p * 2 / 5)), stripe = Math.max(1, Math.floor(p / 14));
    for (let y = 0; y < p; y++) {
      for (let x = 0; x < p; x++) {
        const depth = x - y - start;
        if (depth >= 0 && Math.floor(depth / stripe) % 2 === 0) ctx.fillRect(x, y, 1, 1);
      }
    }
    return (this.hatches[colour] = tile);
  }
};

// Paints layers on one canvas. A layer is {base, name, key(token) -> number, cell(paint, token)}:
// the key says all that the token's pixels depend on, so that only what changed is painted again;
// it is 0 where they are those of the base.
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
    this.keys = new Float64Array(ground.grid.tokens.filter((token) => token >= 0).length);
    this.next = new Float64Array(this.keys.length);
    this.shown = this.painted = null;
    this.line = Math.max(this.grid.patch < 12 ? 1 : 2, Math.round(this.grid.patch / 13));
  }

  paint(layer) {
    if (this.painted === layer) return;
    this.painted = layer;
    const n = this.keys.length;
    let bare = 0;  // cells that are to show the base again
    for (let token = 0; token < n; token++) {
      this.next[token] = layer.key(token);
      if (!this.next[token] && this.keys[token]) bare++;
    }
    if (this.shown !== layer.name || bare > n / 8) {  // all at once costs less than so many
      this.ctx.drawImage(this.ground[layer.base], 0, 0);
      this.keys.fill(0);
      this.shown = layer.name;
    }
    for (let token = 0; token < n; token++) {
      if (this.next[token] === this.keys[token]) continue;
      this.keys[token] = this.next[token];
      layer.cell(this, token);
    }
  }

  corner(token) {
    const {x, y, cols, patch, cells} = this.grid, cell = cells ? cells[token] : token;
    return [x + (cell % cols) * patch, y + Math.floor(cell / cols) * patch];
  }

  // The token's square of one of the ground's sheets.
  copy(token, sheet, opacity = 1) {
    const [x, y] = this.corner(token), p = this.grid.patch;
    this.ctx.globalAlpha = opacity;
    this.ctx.drawImage(this.ground[sheet], x, y, p, p, x, y, p, p);
    this.ctx.globalAlpha = 1;
  }

  fill(token, colour, opacity) {
    const [x, y] = this.corner(token), p = this.grid.patch;
    this.ctx.globalAlpha = opacity;
    this.ctx.fillStyle = colour;
    this.ctx.fillRect(x, y, p, p);
    this.ctx.globalAlpha = 1;
  }

  // A line along the inner edge; two neighbours of one kind (bits) share it, half each.
  outline(token, colour, width, bits, inset = 0) {
    const [x, y] = this.corner(token), p = this.grid.patch, long = p - 2 * inset;
    const half = inset ? width : Math.max(1, Math.floor(width / 2));
    const thick = [0, 1, 2, 3].map((side) => (bits & (1 << side) ? half : width));
    this.ctx.fillStyle = colour;
    this.ctx.fillRect(x + inset, y + inset, long, thick[0]);
    this.ctx.fillRect(x + inset, y + p - inset - thick[1], long, thick[1]);
    this.ctx.fillRect(x + inset, y + inset, thick[2], long);
    this.ctx.fillRect(x + p - inset - thick[3], y + inset, thick[3], long);
  }

  hatch(token, colour) {
    this.ctx.drawImage(this.ground.hatch(colour), ...this.corner(token));
  }

  write(token, text, colour) {
    const [x, y] = this.corner(token), p = this.grid.patch;
    this.ctx.fillStyle = colour;
    this.ctx.font = `${Math.max(6, Math.round(p * (text.length > 2 ? 0.42 : 0.5)))}px system-ui`;
    this.ctx.textAlign = 'center';
    this.ctx.textBaseline = 'middle';
    this.ctx.fillText(text, x + p / 2, y + p / 2 + 1);
  }
};

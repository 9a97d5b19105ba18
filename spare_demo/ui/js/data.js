// One comparison as the server sent it (ui/payload.py, compact.py), and what follows from it at
// any budget.
'use strict';
SPARE.Comparison = class {
  constructor(sent) {
    const {unpack} = SPARE;
    const {rows, columns, canvas} = sent;
    this.key = sent.key;
    this.link = sent.link;
    this.example = sent.example;
    this.n = sent.n;
    // Of several views side by side, not every cell holds a token.
    const cells = unpack(sent.cells), tokens = new Int32Array(rows * columns).fill(-1);
    for (let i = 0; i < this.n; i++) tokens[cells ? cells[i] : i] = i;
    this.grid = {...canvas, rows, cols: columns, cells, tokens};
    this.parts = sent.parts;
    this.padding = unpack(sent.padding);
    this.hasPadding = this.padding.includes(1);
    this.cropped = canvas.cropped;
    this.relevance = unpack(sent.cosine);
    this.squares = unpack(sent.squared_norms);
    this.slots = {};
    for (const [name, method] of Object.entries(sent.methods)) this.slots[name] = this.#slot(method);
    this.directions = this.#directions(sent.coordinates);
    this.residuals = {};
    this.leftovers = new Map();  // by slot and budget, from the server, where that is needed
  }

  #slot(sent) {
    const {unpack} = SPARE;
    const order = unpack(sent.order);
    const slot = {
      ...sent, order, sets: new Map(), gain: unpack(sent.gain), weight: unpack(sent.weight),
      factors: sent.factors && {magnitude: sent.factors.magnitude ? this.squares : null,
                                text: unpack(sent.factors.text)},
      rank: sent.nested ? this.#ranks(order) : null,
    };
    if (!sent.nested) slot.sets.set(sent.budget, order);
    return slot;
  }

  // The tokens' unit directions, (n, width) in one block; null where the server sent none.
  #directions(sent) {
    if (!sent) return null;
    const blocks = [SPARE.unpack(sent.wide), SPARE.unpack(sent.narrow)];
    const {n} = this, width = sent.rank, rows = new Float64Array(n * width);
    let from = 0;
    for (const block of blocks) {
      const wide = (block?.length ?? 0) / n;
      for (let i = 0; i < n; i++) {
        for (let j = 0; j < wide; j++) rows[i * width + from + j] = block[i * wide + j] * sent.step;
      }
      from += wide;
    }
    return {n, width, rows, error: sent.row_error};
  }

  #ranks(order) {
    const rank = new Int32Array(this.n).fill(-1);
    order.forEach((token, turn) => { rank[token] = turn; });
    return rank;
  }

  // The cell a token is drawn in.
  place(token) {
    const cell = this.grid.cells ? this.grid.cells[token] : token;
    return {row: Math.floor(cell / this.grid.cols), col: cell % this.grid.cols};
  }

  // The token of a cell; -1 where there is none.
  at(row, col) {
    const {rows, cols, tokens} = this.grid;
    return row >= 0 && col >= 0 && row < rows && col < cols ? tokens[row * cols + col] : -1;
  }

  // A token's place in words, counted from 1, as render/canvas.py has it.
  where(token) {
    const index = this.parts.findLastIndex((part) => part.start <= token), part = this.parts[index];
    const row = Math.floor((token - part.start) / part.cols), col = (token - part.start) % part.cols;
    const words = `row ${row + 1}, column ${col + 1}`;
    return this.parts.length === 1 ? words : `${words} of the ${index ? 'tiles' : 'base view'}`;
  }

  // What a slot keeps at budget k: {order, rank (n, -1: not), count}; null until the server said.
  picks(name, k) {
    const slot = this.slots[name];
    if (slot.nested) {
      if (slot.cut?.count !== k) {
        const rank = slot.rank.map((turn) => (turn < k ? turn : -1));
        slot.cut = {order: slot.order.subarray(0, k), rank, count: Math.min(k, slot.order.length)};
      }
      return slot.cut;
    }
    const order = slot.sets.get(k);
    if (!order) return null;
    if (slot.cut?.order !== order) {
      slot.cut = {order, rank: this.#ranks(order), count: order.length};
    }
    return slot.cut;
  }

  // The server's answer for a method that is not nested.
  learn(name, k, order) {
    this.slots[name].sets.set(k, Uint16Array.from(order));
  }

  // What is left of every token outside the span of a slot's first picks; null where the
  // server did not send the tokens' directions.
  residual(name, k) {
    const picks = this.picks(name, k);
    if (!this.directions || !picks) return null;
    const order = this.slots[name].nested ? this.slots[name].order : picks.order;
    const known = this.residuals[name];
    if (known?.order === order) return known;
    return (this.residuals[name] = new SPARE.Residuals(this.directions, order));
  }

  counts(k) {
    const a = this.picks('A', k), b = this.picks('B', k);
    if (!a || !b) return null;
    let both = 0, padA = 0, padB = 0;
    for (let i = 0; i < this.n; i++) {
      const inA = a.rank[i] >= 0, inB = b.rank[i] >= 0;
      if (inA && inB) both++;
      if (this.padding[i]) { padA += inA; padB += inB; }
    }
    const union = a.count + b.count - both;
    return {both, a: a.count, b: b.count, onlyA: a.count - both, onlyB: b.count - both,
            neither: this.n - union, padA, padB, jaccard: union ? both / union : 1};
  }
};

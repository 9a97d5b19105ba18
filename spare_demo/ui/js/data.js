// One comparison as the server sent it (ui/payload.py, ui/wire.py), and what follows from it at
// any budget.
'use strict';
SPARE.Comparison = class {
  constructor(sent) {
    const {key, of, link, bibtex, badge, n, parts, padding, depth} = sent;
    Object.assign(this, {key, of, link, bibtex, badge, n, parts, padding, depth});
    const {rows, columns, cells, canvas} = sent;
    // Of several views side by side, not every cell holds a token.
    const tokens = new Int32Array(rows * columns).fill(-1);
    for (let i = 0; i < n; i++) tokens[cells ? cells[i] : i] = i;
    this.grid = {...canvas, rows, cols: columns, cells, tokens};
    this.hasPadding = padding.includes(1);
    this.cropped = canvas.cropped;
    this.relevance = sent.cosine;
    this.space = SPARE.say(sent.by, {});  // what the cosine compares, in words
    this.maps = new Map();  // layers that no budget changes, by name
    this.squares = sent.squared_norms;
    this.slots = {};
    for (const [name, method] of Object.entries(sent.methods)) this.slots[name] = this.#slot(method);
    this.inside = Object.keys(this.slots).filter((name) => this.slots[name].inside);
    this.directions = this.#directions(sent.coordinates);
    this.residuals = {};
    this.leftovers = new Map();  // by slot and budget, from the server, where that is needed
  }

  #slot(sent) {
    const {factors} = sent;
    const slot = {
      ...sent, sets: new Map(), mixtures: new Map(), layers: new Map(),
      factors: factors && {magnitude: factors.magnitude && this.squares, text: factors.text},
    };
    if (sent.per_layer) slot.layers.set(sent.per_layer.budget, this.#perLayer(sent.per_layer));
    if (!sent.nested && !sent.inside) {
      slot.sets.set(sent.budget, sent.order);
      slot.mixtures.set(sent.budget, this.#mixture(sent.sources));
    }
    return slot;
  }

  // The tokens' unit directions, (n, width) in one block; null where the server sent none.
  #directions(sent) {
    if (!sent) return null;
    const {n} = this, width = sent.rank, rows = new Float64Array(n * width);
    let from = 0;
    for (const block of [sent.wide, sent.narrow]) {
      const wide = block.length / n;
      for (let i = 0; i < n; i++) {
        for (let j = 0; j < wide; j++) rows[i * width + from + j] = block[i * wide + j] * sent.step;
      }
      from += wide;
    }
    return {n, width, rows, error: sent.row_error};
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

  // What a slot keeps at budget k: {order, rank (n, -1: not), kept (n, 0 or 1), count, of: the order
  // whose first tokens these are}, good until another k is asked for; null until the server said.
  picks(name, k) {
    const slot = this.slots[name];
    const order = slot.nested ? slot.order : slot.sets.get(k);
    if (!order) return null;
    if (slot.cut?.of !== order) {
      slot.cut = {of: order, order: order.subarray(0, 0), count: 0,
                  rank: new Int32Array(this.n).fill(-1), kept: new Uint8Array(this.n)};
    }
    this.#cut(slot.cut, slot.nested ? Math.min(k, order.length) : order.length);
    return slot.cut;
  }

  // Whether the server is to be asked what a slot keeps at budget k.
  lacksPicks(name, k) {
    return !SPARE.saved && !this.slots[name].inside && !this.picks(name, k);
  }

  // Moves a cut of an order to its first k. In place: what scrubbing throws away at every frame has
  // to be collected, and that stops the page for longer than a frame.
  #cut(cut, k) {
    const {of, rank, kept} = cut;
    if (cut.count === k) return;
    for (let turn = cut.count; turn < k; turn++) {
      rank[of[turn]] = turn;
      kept[of[turn]] = 1;
    }
    for (let turn = k; turn < cut.count; turn++) {
      rank[of[turn]] = -1;
      kept[of[turn]] = 0;
    }
    cut.count = k;
    cut.order = of.subarray(0, k);
  }

  // The server's answer for a method that is not nested.
  add(name, k, order, sources) {
    this.slots[name].sets.set(k, Uint16Array.from(order));
    this.slots[name].mixtures.set(k, this.#mixture(sources));
  }

  // Merged rows: `rows` the parts [{token, share}] of each, largest first; null where not sent.
  #mixture(sent) {
    if (!sent) return null;
    const {counts, patches, shares} = sent;
    let from = 0;
    return Array.from(counts, (count) => {
      const parts = Array.from({length: count},
        (_, i) => ({token: patches[from + i], share: shares[from + i]}));
      from += count;
      return parts.sort((a, b) => b.share - a.share);
    });
  }

  // What a slot that merges made of a token at budget k; null where the server did not say.
  // A token with a row of its own (`kept`): the other parts of that row. Another: the tokens whose
  // rows it is in, and `without` the number of rows of no one token that it is in.
  mergedParts(name, k, token) {
    const rows = this.slots[name].mixtures.get(k), picks = this.picks(name, k);
    if (!rows || !picks) return null;
    const holds = (parts, one) => parts.find((part) => part.token === one && part.share === 1);
    const kept = picks.rank[token] >= 0;
    if (kept) {
      const own = rows.find((parts) => holds(parts, token)) ?? [];
      return {kept, parts: own.filter((part) => part.token !== token), without: 0};
    }
    const homes = [];
    let without = 0;
    for (const parts of rows) {
      const mine = parts.find((part) => part.token === token);
      if (!mine) continue;
      const home = parts.find((part) => part.share === 1 && picks.rank[part.token] >= 0);
      if (home) homes.push({token: home.token, share: mine.share}); else without++;
    }
    return {kept, parts: homes.sort((a, b) => b.share - a.share), without};
  }

  // What became of every token at budget k in a slot that merges: (n,) 0 no part in any row, 1 only
  // mixed into rows of others, 2 a row of its own, 3 one with others mixed in; and how many rows
  // there are. null where the server did not say.
  mergeKinds(name, k) {
    const rows = this.slots[name].mixtures.get(k), picks = this.picks(name, k);
    if (!rows || !picks) return null;
    const kinds = new Uint8Array(this.n);
    for (const parts of rows) for (const {token} of parts) kinds[token] ||= 1;
    for (const parts of rows) {
      const home = parts.find(({token, share}) => share === 1 && picks.rank[token] >= 0);
      if (home) kinds[home.token] = parts.length > 1 ? 3 : 2;
    }
    return {kinds, rows: rows.length};
  }

  // The same of methods inside the language model, once they answered.
  addLayers(slots) {
    for (const [name, sent] of Object.entries(slots)) {
      this.slots[name].layers.set(sent.budget, this.#perLayer(sent));
    }
  }

  #perLayer({counts, sentence, sets}) {
    const bits = (bytes) => (
      Uint8Array.from({length: this.n}, (_, i) => (bytes[i >> 3] >> (i & 7)) & 1));
    return {counts, sentence, sets: sets.map(({layer, kept, merged, rows, sources, grown}) => {
      const own = bits(kept), mixed = bits(merged);
      let count = 0, others = 0;
      for (let i = 0; i < this.n; i++) { count += own[i]; others += mixed[i]; }
      return {layer, kept: own, merged: mixed, count, others, rows, grown, mixture: this.#mixture(sources)};
    })};
  }

  // What a slot inside the language model kept in all its layers at budget k; null until known.
  perLayer(name, k) {
    return this.slots[name].layers.get(k) ?? null;
  }

  // The merged row that a token is in, in a layer of a slot inside the language model: its place
  // from 1 and its parts [{token, share}], largest first. null where there is none, or none sent.
  mergedRow(name, k, layer, token) {
    const rows = this.tokensIn(name, k, layer)?.mixture ?? [];
    const at = rows.findIndex((parts) => parts.some((part) => part.token === token));
    return at < 0 ? null : {place: at + 1, parts: rows[at]};
  }

  // The tokens a slot has in a layer at budget k: {kept (n, 0 or 1), count}, of methods inside the
  // language model also {layer, merged, others, rows, grown}. Others have the same in all layers.
  tokensIn(name, k, layer) {
    if (this.slots[name].inside) {
      return this.perLayer(name, k)?.sets.findLast((set) => set.layer <= layer) ?? null;
    }
    return this.picks(name, k);
  }

  // What is left of every token outside the span of a slot's first picks; null where the
  // server did not send the tokens' directions, and where rows are merged, which no pick is.
  residual(name, k) {
    const picks = this.picks(name, k);
    if (!this.directions || !picks || this.slots[name].merges) return null;
    const residual = this.residuals[name];
    if (residual?.order === picks.of) return residual;
    return (this.residuals[name] = new SPARE.Residuals(this.directions, picks.of));
  }

  // Works towards a slot's leftovers at budget k, no longer than a frame can spare; true when they
  // are there, or nothing can be worked out here.
  isReady(name, k) {
    return this.residual(name, k)?.ahead(6, k) ?? true;
  }

  // How two sets of `picks` or `tokensIn` overlap, and what of them lies in padding.
  counts(a, b) {
    let both = 0, padA = 0, padB = 0;
    for (let i = 0; i < this.n; i++) {
      const inA = a.kept[i], inB = b.kept[i];
      if (inA && inB) both++;
      if (this.padding[i]) { padA += inA; padB += inB; }
    }
    const union = a.count + b.count - both;
    return {both, a: a.count, b: b.count, onlyA: a.count - both, onlyB: b.count - both,
            neither: this.n - union, padA, padB, jaccard: union ? both / union : 1};
  }
};

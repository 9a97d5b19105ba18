// Modified Gram-Schmidt over the picks, one at a time: leftovers, and who stands in for whom.
'use strict';

SPARE.Residuals = class {
  // directions: {rows (n x width, unit rows), n, width, error}; order: the picks, first pick first.
  constructor({rows, n, width, error}, order) {
    Object.assign(this, {n, width, order, source: rows});
    this.left = rows.slice();  // of every token, outside the span of the picks so far
    // A pick of which no more than this is left lies in the span of those before it: what is left
    // is the rounding of the directions.
    this.dependent = 3 * error;
    this.basis = [];   // unit vectors, one per independent pick
    this.used = [];    // the step at which each of them came
    this.shares = [];  // shares[k]: (n,) left over once k are picked
    this.squares = new Float64Array(n);
    for (let i = 0, at = 0; i < n; i++) {
      for (let j = 0; j < width; j++, at++) this.squares[i] += rows[at] * rows[at];
    }
    this.shares.push(new Float32Array(this.squares));
  }

  get steps() { return this.shares.length - 1; }

  // (n,) share of each token's squared norm that the first k picks cannot rebuild.
  share(k) {
    k = Math.min(k, this.order.length);
    while (this.steps < k) this.#step();
    return this.shares[k];
  }

  // Works towards the first k picks for at most `time` milliseconds; true when they are done.
  ahead(time, k = this.order.length) {
    const end = performance.now() + time;
    k = Math.min(k, this.order.length);
    while (this.steps < k) {
      if (performance.now() > end) return false;
      this.#step();
    }
    return true;
  }

  // The token's direction as a sum of those of the first k picks, and the share left over.
  standIns(token, k) {
    const left = this.share(k)[token];
    const m = this.used.filter((step) => step < k).length;
    const x = this.source.subarray(token * this.width, (token + 1) * this.width);
    const c = new Float64Array(m);
    for (let j = 0; j < m; j++) c[j] = SPARE.dot(this.basis[j], x);
    for (let j = m - 1; j >= 0; j--) {  // the picks are triangular in their own basis
      for (let i = j + 1; i < m; i++) c[j] -= this.#entry(j, i) * c[i];
      c[j] /= this.#entry(j, j);
    }
    const parts = [...c].map((value, j) => ({token: this.order[this.used[j]], coefficient: value}));
    return {parts, left};
  }

  // Component of independent pick i along basis vector j.
  #entry(j, i) {
    this.table ??= [];
    const column = (this.table[i] ??= new Float64Array(i + 1).fill(NaN));
    if (Number.isNaN(column[j])) {
      const from = this.order[this.used[i]] * this.width;
      column[j] = SPARE.dot(this.basis[j], this.source.subarray(from, from + this.width));
    }
    return column[j];
  }

  #step() {
    const pick = this.order[this.steps], width = this.width, left = this.left;
    const from = pick * width;
    if (!(Math.sqrt(this.squares[pick]) > this.dependent)) {  // nothing new in it
      this.#share(this.steps + 1);
      return;
    }
    const q = left.slice(from, from + width);
    for (let pass = 0; pass < 2; pass++) {  // again, against what rounding leaves of the others
      if (pass) {
        for (const other of this.basis) {
          const along = SPARE.dot(other, q);
          for (let j = 0; j < width; j++) q[j] -= along * other[j];
        }
      }
      const length = Math.sqrt(SPARE.dot(q, q));
      for (let j = 0; j < width; j++) q[j] /= length;
    }
    for (let i = 0, at = 0; i < this.n; i++, at += width) {
      let along = 0;
      for (let j = 0; j < width; j++) along += left[at + j] * q[j];
      let square = 0;
      for (let j = 0; j < width; j++) {
        const value = (left[at + j] -= along * q[j]);
        square += value * value;
      }
      this.squares[i] = square;
    }
    this.used.push(this.steps);
    this.basis.push(q);
    this.#share(this.steps + 1);
  }

  // What is left over after so many picks, of which nothing is, whatever rounding leaves of them.
  #share(count) {
    const shares = new Float32Array(this.squares);
    for (let step = 0; step < count; step++) shares[this.order[step]] = 0;
    this.shares.push(shares);
  }
};

SPARE.dot = (a, b) => {
  let sum = 0;
  for (let j = 0; j < a.length; j++) sum += a[j] * b[j];
  return sum;
};

// What each layer of token sets paints, its sentence (also its accessible name) and its keys, at one
// budget. Words are made when they are read, which is not at every frame.
'use strict';
SPARE.layers = (() => {
  const {tokensWord, escape, colours, expectedJaccard, say} = SPARE;
  const NUMBERED = 64;  // most picks that carry their rank; more would be a page of digits

  const nothing = (sentence) => (
    {name: 'photo', base: 'photo', keys: (into) => into.fill(0), legend: '', sentence});

  // Adds to the key of every token that is marked which of its neighbours bear the same mark.
  // `marks`: the bits, of the lowest eight, that say it; those of the neighbours are the next four.
  function join(into, {rows, cols, tokens}, marks) {
    const same = (cell, own) => tokens[cell] >= 0 && (into[tokens[cell]] & marks) === own;
    let cell = 0;
    for (let row = 0; row < rows; row++) {
      for (let col = 0; col < cols; col++, cell++) {
        const token = tokens[cell], own = token < 0 ? 0 : into[token] & marks;
        if (!own) continue;
        let bits = 0;
        if (row > 0 && same(cell - cols, own)) bits |= 1;
        if (row < rows - 1 && same(cell + cols, own)) bits |= 2;
        if (col > 0 && same(cell - 1, own)) bits |= 4;
        if (col < cols - 1 && same(cell + 1, own)) bits |= 8;
        into[token] |= bits << 8;
      }
    }
  }

  const near = (key) => (key >> 8) & 15;

  // `inside` the language model there is nothing to ask for: no one set holds in every layer.
  function waiting({label: title, inside, lowest, layers, sets}, k) {
    if (inside) {
      const no = `${title} has no single token set: it chooses inside the language model, layer by layer`;
      return nothing(
        layers.has(k) ? `${no}. Look at its tokens in each layer instead: Kept or Difference.`
          : k < lowest ? `${no}. It cannot meet a budget of ${k}: choose ${lowest} or more.`
            : SPARE.saved ? `${no}. This page has them at a budget of ${[...layers.keys()]} only.`
              : `${no}. They are shown once it has answered at ${k}.`);
    }
    return nothing(`${title} chooses anew for each budget. ` + (SPARE.saved
      ? `This page has its picks at ${[...sets.keys()]} only.` : 'Asking the server for its picks.'));
  }

  // A key of the legend; mark: its colour where that is a method's own.
  function swatch(kind, text, mark = '') {
    return `<span class="key ${kind}"${mark && ` style="--mark:${mark}"`}>${escape(text)}</span>`;
  }

  function ground(data) {
    return (data.hasPadding ? swatch('padding', 'padding') : '') +
      (data.cropped ? swatch('cropped', 'cropped away') : '');
  }

  function difference(data, k) {
    const at = depthOf(data), held = ['A', 'B'].map((name) => data.tokensIn(name, k, at));
    for (const [i, name] of ['A', 'B'].entries()) {
      if (!held[i]) return waiting(data.slots[name], k);
    }
    const [{kept: a}, {kept: b}] = held;
    const labels = ['A', 'B'].map((slot) => picksLabel(data.slots[slot]));
    return {
      name: 'difference', base: 'dim',
      keys(into) {
        for (let i = 0; i < into.length; i++) into[i] = a[i] | (b[i] << 1);
        join(into, data.grid, 3);
      },
      cell(paint, i, key) {
        const own = key & 3, bits = near(key), w = paint.line;
        paint.copy(i, 'photo');
        if (own === 3) {
          paint.outline(i, '#000', w + 1, bits);
          paint.outline(i, '#fff', Math.max(1, w - 1), bits, 1);
        } else {
          const colour = colours.mark[own === 1 ? 'A' : 'B'];
          if (own === 2) paint.hatch(i, colour);
          paint.outline(i, colour, w, bits);
        }
      },
      get legend() {
        const c = data.counts(...held);
        return swatch('both', `both ${c.both}`) + swatch('a', `only ${labels[0]} ${c.onlyA}`) +
          swatch('b', `only ${labels[1]} ${c.onlyB}`) + swatch('none', `neither ${c.neither}`) +
          ground(data);
      },
      get sentence() {
        const c = data.counts(...held);
        const [a, b] = labels, tokens = tokensWord(c.a);
        const share = c.jaccard.toFixed(2), chance = expectedJaccard(data.n, c.a, c.b).toFixed(2);
        return (data.inside.length ? `In layer ${at + 1} of ${data.depth}: ` : '') +
          say(c.a === c.b ? 'both' : 'both of two counts', {a, b, tokens, count: c.b, both: c.both}) +
          (data.hasPadding ? say('both in padding', {a, b, count_a: c.padA, count_b: c.padB}) : '') +
          ` ${say('jaccard', {share, chance})}.`;
      },
    };
  }

  // Rows of a method that merges cannot be compared patch by patch, the patches they grew from can.
  // Inside the language model merged rows stand beside those kept as they are, which are compared.
  function picksLabel({label, merges, inside}) {
    return merges && !inside ? `${label} (picks)` : label;
  }

  // The layer of the language model that is looked at; the last one at first.
  const depthOf = (data) => Math.min(SPARE.state.depth ?? data.depth - 1, data.depth - 1);

  // A set on the dimmed photo. flags: (n, 0 or 1); `name` tells sets apart whose colours differ.
  function set(data, name, label, colour, flags, count, merges = false) {
    return {
      name, base: 'dim',
      keys(into) {
        into.set(flags);
        join(into, data.grid, 1);
      },
      cell(paint, i, key) {
        paint.copy(i, 'photo');
        paint.outline(i, colour, paint.line, near(key));
      },
      get legend() {
        return swatch('kept',
          `${label} ${merges ? 'grew merged tokens from' : 'kept'} ${count}`, colour) +
          swatch('none', `${merges ? 'mixed in or dropped' : 'dropped'} ${data.n - count}`) + ground(data);
      },
      get sentence() {
        let padded = 0;
        for (let i = 0; i < data.n; i++) if (data.padding[i] && flags[i]) padded++;
        const tokens = tokensWord(data.n), lie = padded === 1 ? 'lies' : 'lie';
        return (merges ? `${label} grew its merged tokens from ${count} of ${tokens}`
          : say('kept', {label, count, tokens})) +
          (data.hasPadding ? say('in padding', {count: padded, lie}) : '') + '.';
      },
    };
  }

  // One layer of the language model, as render/overlay.py draws it: those merged into other rows
  // with a marked corner.
  function inLayer(data, k, slot) {
    const at = depthOf(data), held = data.tokensIn(slot, k, at), {label} = data.slots[slot];
    if (!held) return waiting(data.slots[slot], k);
    const {kept: flags, merged, count, others, rows, grown} = held, colour = colours.mark[slot];
    const into = rows === 1 ? '1 row' : `${rows} rows`;
    const from = others === 1 ? '1 other' : `${others} others`;
    const mixed = () => (grown ? say('layer grown', {rows, others: from})
      : say('layer merged', {rows: into, others: from}));
    return {
      name: `in layer ${slot}`, base: 'dim',
      keys(into) {
        for (let i = 0; i < into.length; i++) into[i] = flags[i] | (merged[i] << 1);
        join(into, data.grid, 1);
      },
      cell(paint, i, key) {
        paint.copy(i, key & 1 ? 'photo' : 'dim');
        if (key & 1) paint.outline(i, colour, paint.line, near(key)); else paint.hatch(i, colour);
      },
      legend: swatch('kept', `${label} still has ${count}`, colour) +
        (rows ? swatch('merged', `merged ${others} into ${into}`, colour) : '') +
        swatch('none', `dropped ${data.n - count - others}`) + ground(data),
      sentence: say('layer', {layer: at + 1, depth: data.depth, label, count,
        tokens: tokensWord(data.n)}) + (rows ? mixed() : '') + '.',
    };
  }

  // What a method made of the tokens it merged, as render/overlay.py draws it.
  function merged(data, slot, {kinds, rows}) {
    const {label} = data.slots[slot], colour = colours.mark[slot];
    const [unused, mixed, alone, grown] = [0, 1, 2, 3].map(
      (kind) => kinds.reduce((count, own) => count + (own === kind), 0));
    return {
      name: `merged ${slot}`, base: 'dim',
      keys(into) {
        into.set(kinds);
        join(into, data.grid, 2);
      },
      cell(paint, i, key) {
        const own = key & 3;
        paint.copy(i, own > 1 ? 'photo' : 'dim');
        if (own === 1) paint.copy(i, 'photo', 0.5);
        if (own > 1) paint.outline(i, colour, paint.line, near(key));
        if (own === 3) paint.hatch(i, colour);
      },
      legend: swatch('kept', `unchanged ${alone}`, colour) +
        swatch('grown', `others mixed in ${grown}`, colour) +
        swatch('mixed', `only mixed in ${mixed}`) + swatch('none', `unused ${unused}`) + ground(data),
      sentence: say('merged', {label, tokens: tokensWord(data.n), rows, alone, grown,
        without: rows - alone - grown, mixed, unused}),
    };
  }

  function kept(data, k, slot) {
    if (data.slots[slot].inside) return inLayer(data, k, slot);
    const picks = data.picks(slot, k), label = data.slots[slot].label;
    if (!picks) return waiting(data.slots[slot], k);
    const became = data.slots[slot].merges && data.mergeKinds(slot, k);
    if (became) return merged(data, slot, became);
    return set(data, `kept ${slot}`, label, colours.mark[slot], picks.kept, picks.count,
      data.slots[slot].merges);
  }

  function order(data, k, slot) {
    const picks = data.picks(slot, k), {label} = data.slots[slot];
    if (!picks) return waiting(data.slots[slot], k);
    const {rank, count} = picks, last = Math.max(1, count - 1), few = count <= NUMBERED ? count : 0;
    // So many shades look like a ramp, and one pick more does not change the shade of every other.
    const most = few ? last : 127;
    return {
      name: `order ${slot}`, base: 'dim',
      keys(into) {
        into.fill(0);
        for (let turn = 0; turn < count; turn++) {
          into[picks.order[turn]] = 1 | (Math.round(turn / last * most) << 12) | (few << 19);
        }
        join(into, data.grid, 1);
      },
      cell(paint, i, key) {
        const {fill, ink} = colours.shade(slot, (key >> 12) & 127, most);
        paint.copy(i, 'grey');
        paint.fill(i, fill, 0.8);
        paint.outline(i, '#fff', Math.max(1, Math.floor(paint.line / 2)), near(key));
        if (few) paint.write(i, String(rank[i] + 1), ink);
      },
      get legend() {
        return `<span class="bar"><b>first (1)</b><span style="background:` +
          `${colours.bars[slot]}"></span><b>last (${count})</b></span>`;
      },
      get sentence() {
        const at = picks.order.findIndex((token) => data.padding[token]);
        return say('order', {label, count, tokens: tokensWord(data.n)}) +
          say('first', {where: data.where(picks.order[0])}) + (!data.hasPadding ? '' : at >= 0
          ? say('padding rank', {rank: at + 1}) : say('no padding', {})) + '.';
      },
    };
  }

  // The picture as all visual tokens show it.
  function photo(data) {
    return {name: 'photo', base: 'photo', keys: (into) => into.fill(0), legend: ground(data),
      sentence: `All ${tokensWord(data.n)}, as the language model gets them.`};
  }

  // What the three pictures show in each layer: beside what both methods share, each one's own.
  const trios = {
    kept: ['photo', 'kept', 'kept'], order: ['photo', 'order', 'order'],
    relevance: ['relevance', 'kept', 'kept'], difference: ['difference', 'kept', 'kept'],
    weight: ['relevance', 'weight', 'weight'], leftover: ['photo', 'leftover', 'leftover'],
    carrier: ['photo', 'carrier', 'carrier'], own: ['own', 'kept', 'kept'],
  };
  const titles = {photo: 'All visual tokens', relevance: 'Relevance', difference: 'Difference',
                  own: 'Your set'};

  const drawn = {photo, difference, order, kept};
  return {drawn, trios, titles, set, nothing, waiting, depthOf};
})();

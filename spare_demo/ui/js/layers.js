// What each layer paints, its sentence (also its accessible name) and its key, at one budget. Words
// are made when they are read, which is not at every frame.
'use strict';
SPARE.layers = (() => {
  const {number, tokensWord, escape, colours, expectedJaccard} = SPARE;
  const {css, named} = colours;
  const NUMBERED = 64;  // most picks that carry their rank; more would be a page of digits

  // Bits of the neighbours (up, down, left, right) for which `same` holds.
  function neighbours(token, {rows, cols, cells, tokens}, same) {
    const cell = cells ? cells[token] : token, row = Math.floor(cell / cols), col = cell % cols;
    const there = (other) => tokens[other] >= 0 && same(tokens[other]);
    return (row > 0 && there(cell - cols) ? 1 : 0) | (row < rows - 1 && there(cell + cols) ? 2 : 0) |
      (col > 0 && there(cell - 1) ? 4 : 0) | (col < cols - 1 && there(cell + 1) ? 8 : 0);
  }

  // `inside` the language model there is nothing to ask for: no one set holds in every layer.
  function waiting(what, {label: title, inside, lowest, layers}, k) {
    if (inside) {
      const no = `${title} has no single token set: it chooses inside the language model, layer by layer`;
      return {
        name: 'photo', base: 'photo', key: () => 0, cell: () => {}, legend: '',
        sentence: layers.has(k) ? `${no}. Look at its tokens in each layer instead: Difference, A or B.`
          : k < lowest ? `${no}. A budget of ${k} is out of its reach: choose ${lowest} or more.`
            : `${no}. They are shown once it has answered at ${k}.`,
      };
    }
    return {
      name: 'photo', base: 'photo', key: () => 0, cell: () => {},
      legend: '', asks: what,
      sentence: `${title} is not nested: its picks at ${k} are not the first of a longer list. ` +
        `Asking the server for them.`,
    };
  }

  function swatch(kind, text) {
    return `<span class="key ${kind}">${escape(text)}</span>`;
  }

  function ground(data) {
    return (data.hasPadding ? swatch('padding', 'padding') : '') +
      (data.cropped ? swatch('cropped', 'cropped away') : '');
  }

  function difference(data, k) {
    const at = depthOf(data), held = ['A', 'B'].map((name) => data.held(name, k, at));
    for (const [i, name] of ['A', 'B'].entries()) {
      if (!held[i]) return waiting(name, data.slots[name], k);
    }
    const [{kept: a}, {kept: b}] = held;
    const kind = (i) => a[i] | (b[i] << 1);
    const near = (i) => {
      const own = kind(i);
      return own ? neighbours(i, data.grid, (j) => kind(j) === own) : 0;
    };
    const labels = ['A', 'B'].map((slot) => picksLabel(data.slots[slot]));
    return {
      name: 'difference', base: 'dim',
      key: (i) => kind(i) | (near(i) << 2),
      cell(paint, i) {
        const own = kind(i), bits = near(i), w = paint.line;
        paint.copy(i, own ? 'photo' : 'dim');
        if (own === 3) {
          paint.outline(i, '#000', w + 1, bits);
          paint.outline(i, '#fff', Math.max(1, w - 1), bits, 1);
        } else if (own) {
          const colour = css(named[own === 1 ? 'A' : 'B']);
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
        return (data.inside.length ? `In layer ${at + 1} of ${data.depth}: ` : '') +
          `${labels[0]} kept ${c.a} of ${tokensWord(data.n)}; ${c.both} of them ` +
          `${labels[1]} kept too` + (c.a !== c.b ? ` (of its ${c.b}).` : '.') +
          (data.hasPadding ? ` ${c.padA} of ${labels[0]}'s and ${c.padB} of ${labels[1]}'s lie in padding.` : '') +
          ` Jaccard ${c.jaccard.toFixed(2)} (two random picks: ` +
          `${expectedJaccard(data.n, c.a, c.b).toFixed(2)}).`;
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

  // A set on the dimmed photo. flags(i) -> kept; `name` tells sets apart whose colours differ.
  function set(data, name, label, colour, flag, count, merges = false) {
    const near = (i) => (flag(i) ? neighbours(i, data.grid, flag) : 0);
    return {
      name, base: 'dim',
      key: (i) => (flag(i) ? 1 : 0) | (near(i) << 1),
      cell(paint, i) {
        paint.copy(i, flag(i) ? 'photo' : 'dim');
        if (flag(i)) paint.outline(i, colour, paint.line, near(i));
      },
      get legend() {
        return `<span class="key kept" style="--mark:${colour}">${escape(label)} ` +
          `${merges ? 'grew merged tokens from' : 'kept'} ${count}</span>` +
          swatch('none', `${merges ? 'mixed in or dropped' : 'dropped'} ${data.n - count}`) + ground(data);
      },
      get sentence() {
        let padded = 0;
        for (let i = 0; i < data.n; i++) if (data.padding[i] && flag(i)) padded++;
        return `${label} ${merges ? 'grew its merged tokens from' : 'kept'} ${count} of ` +
          `${tokensWord(data.n)}` + (data.hasPadding
          ? `; ${padded} of them ${padded === 1 ? 'lies' : 'lie'} in padding.` : '.');
      },
    };
  }

  // One layer of the language model, as render/layers.py draws it: those merged into other rows
  // with a hatch.
  function inLayer(data, k, slot) {
    const at = depthOf(data), held = data.held(slot, k, at), {label} = data.slots[slot];
    if (!held) return waiting(slot, data.slots[slot], k);
    const {kept: flags, merged, count, others, rows} = held, colour = css(named[slot]);
    const near = (i) => (flags[i] ? neighbours(i, data.grid, (j) => flags[j]) : 0);
    const into = rows === 1 ? '1 row' : `${rows} rows`;
    return {
      name: `in layer ${slot}`, base: 'dim',
      key: (i) => flags[i] | (merged[i] << 1) | (near(i) << 2),
      cell(paint, i) {
        paint.copy(i, flags[i] ? 'photo' : 'dim');
        if (merged[i] && !flags[i]) paint.hatch(i, colour);
        if (flags[i]) paint.outline(i, colour, paint.line, near(i));
      },
      legend: `<span class="key kept" style="--mark:${colour}">${escape(label)} still has ${count}</span>` +
        (rows ? `<span class="key merged" style="--mark:${colour}">merged ${others} into ${into}</span>` : '') +
        swatch('none', `dropped ${data.n - count - others}`) + ground(data),
      sentence: `In layer ${at + 1} of ${data.depth} ${label} still has ${count} of ` +
        `${tokensWord(data.n)}${rows ? `, and ${into} merged from ${others} others` : ''}.`,
    };
  }

  // What a method made of the tokens it merged, as render/merged.py draws it.
  function merged(data, slot, {kinds, rows}) {
    const {label} = data.slots[slot], colour = css(named[slot]);
    const near = (i) => (kinds[i] > 1 ? neighbours(i, data.grid, (j) => kinds[j] > 1) : 0);
    const [unused, mixed, alone, grown] = [0, 1, 2, 3].map(
      (kind) => kinds.reduce((count, own) => count + (own === kind), 0));
    const key = (kind, text) => `<span class="key ${kind}" style="--mark:${colour}">${text}</span>`;
    return {
      name: `merged ${slot}`, base: 'dim',
      key: (i) => kinds[i] | (near(i) << 2),
      cell(paint, i) {
        paint.copy(i, kinds[i] > 1 ? 'photo' : 'dim');
        if (kinds[i] === 1) paint.copy(i, 'photo', 0.5);
        if (kinds[i] > 1) paint.outline(i, colour, paint.line, near(i));
        if (kinds[i] === 3) paint.hatch(i, colour);
      },
      legend: key('kept', `as they are ${alone}`) + key('grown', `others mixed in ${grown}`) +
        swatch('mixed', `only mixed in ${mixed}`) + swatch('none', `no part ${unused}`) + ground(data),
      sentence: `${label} merged ${tokensWord(data.n)} into ${rows}: ${alone} as they are, ${grown} ` +
        `with others mixed in, ${rows - alone - grown} of no single patch. ${mixed} are only mixed ` +
        `in, ${unused} have no part.`,
    };
  }

  function kept(data, k, slot) {
    if (data.slots[slot].inside) return inLayer(data, k, slot);
    const picks = data.picks(slot, k), label = data.slots[slot].label;
    if (!picks) return waiting(slot, data.slots[slot], k);
    const became = data.slots[slot].merges && data.became(slot, k);
    if (became) return merged(data, slot, became);
    return set(data, `kept ${slot}`, label, css(named[slot]), (i) => picks.rank[i] >= 0, picks.count,
      data.slots[slot].merges);
  }

  function order(data, k, slot) {
    const picks = data.picks(slot, k), {label} = data.slots[slot];
    if (!picks) return waiting(slot, data.slots[slot], k);
    const {rank, count} = picks, flag = (i) => rank[i] >= 0;
    const near = (i) => neighbours(i, data.grid, flag);
    // So many shades look like a ramp, and one pick more does not change the shade of every other.
    const most = count > NUMBERED ? 127 : Math.max(1, count - 1);
    const step = (i) => Math.round(rank[i] / Math.max(1, count - 1) * most);
    return {
      name: `order ${slot}`, base: 'dim',
      key: (i) => (flag(i) ? (((count > NUMBERED ? 0 : count) * 128 + step(i)) * 16 + near(i)) * 2 + 1 : 0),
      cell(paint, i) {
        if (!flag(i)) return paint.copy(i, 'dim');
        const shade = colours.ramp(named[slot], step(i) / most);
        paint.copy(i, 'grey');
        paint.fill(i, css(shade), 0.8);
        paint.outline(i, '#fff', Math.max(1, Math.floor(paint.line / 2)), near(i));
        if (count > NUMBERED) return;
        const light = 0.299 * shade[0] + 0.587 * shade[1] + 0.114 * shade[2];
        paint.write(i, String(rank[i] + 1), light < 128 ? '#fff' : '#000');
      },
      get legend() {
        return `<span class="bar"><b>first (1)</b><span style="background:` +
          `${colours.gradient((t) => colours.ramp(named[slot], t))}"></span><b>last (${count})</b></span>`;
      },
      get sentence() {
        const at = picks.order.findIndex((token) => data.padding[token]);
        return `${label} picked ${count} of ${tokensWord(data.n)}, dark first and light last; the ` +
          `first is ${data.where(picks.order[0])}` + (!data.hasPadding ? '.' : at >= 0
          ? `; padding is first picked at rank ${at + 1}.` : '; none lies in padding.');
      },
    };
  }

  // A map of raw values over the grey photo. range: shared ends, or null for the map's own;
  // label and more: functions that say what it is and what else there is to say.
  function map(data, name, values, label, meaning, range = null, more = null) {
    let least = Infinity, most = -Infinity, mean = 0;
    for (const value of values) {
      least = Math.min(least, value); most = Math.max(most, value); mean += value / values.length;
    }
    const [low, high] = range ?? [least, most];
    const share = (value) => (high > low ? (value - low) / (high - low) : 0.5);
    const signed = low < 0, scale = Math.max(Math.abs(low), Math.abs(high));
    const told = (value) => number(value, signed, scale);
    const side = (at) => (at < 0.08 ? ' class="low"' : at > 0.92 ? ' class="high"' : '');
    const tick = (value, text) =>
      `<i${side(share(value))} style="left:${(100 * share(value)).toFixed(1)}%">${text}</i>`;
    const colour = (i) => colours.cividis(share(values[i]));
    return {
      name, base: 'grey',
      key: (i) => { const [r, g, b] = colour(i); return (r << 16) | (g << 8) | b; },
      cell(paint, i) {
        paint.copy(i, 'grey');
        paint.fill(i, css(colour(i)), 0.55);
      },
      get legend() {
        return `<span class="bar"><b>${told(low)}</b><span style="background:` +
          `${colours.gradient(colours.cividis)}">${tick(mean, `mean ${told(mean)}`)}` +
          `${low < 0 && high > 0 ? tick(0, '0') : ''}</span><b>${told(high)}</b></span>`;
      },
      get sentence() {
        return `${label()}: from ${told(least)} to ${told(most)}, mean ${told(mean)}. ${meaning}` +
          (range ? ` The colours run from ${told(low)} to ${told(high)}.` : '') +
          (more ? ` ${more()}` : '');
      },
    };
  }

  // A map that no budget changes is made once for a comparison.
  function once(data, name, make) {
    if (!data.maps.has(name)) data.maps.set(name, make());
    return data.maps.get(name);
  }

  const nothing = (sentence) => (
    {name: 'photo', base: 'photo', key: () => 0, cell: () => {}, legend: '', sentence});

  function relevance(data) {
    if (!data.relevance) {
      return nothing('No relevance: there is no question, or this model has no CLIP text side.');
    }
    const word = data.words?.chosen ?? -1;
    if (word >= 0) {
      const {names, values, range} = data.words, name = `relevance ${word}`;
      return once(data, name, () => map(data, name,
        values.subarray(word * data.n, (word + 1) * data.n),
        () => `Raw cosine between each patch and “${names[word]}”, in CLIP's space`,
        'High means similar.', range, () => `All ${names.length} words share this scale.`));
    }
    return once(data, 'relevance', () => map(data, 'relevance', data.relevance,
      () => "Raw cosine between each patch and the question, in CLIP's space",
      'High means similar. SPARE and CDPruner, as released, favour low.'));
  }

  function weight(data, k, slot) {
    const {label, weight: values} = data.slots[slot];
    if (!values) return nothing(`${label} uses no text weight.`);
    return once(data, `weight ${slot}`, () => {
      const top = values.reduce((best, v, i) => (v > values[best] ? i : best), 0);
      return map(data, `weight ${slot}`, values, () => `Text weight that ${label} gave each patch`,
        'The higher, the sooner it is picked, other things equal.', null,
        () => `The highest is at ${data.where(top)}.`);
    });
  }

  function leftover(data, k, slot) {
    const {label} = data.slots[slot];
    if (!data.picks(slot, k)) return waiting(slot, data.slots[slot], k);
    if (data.slots[slot].merges) {
      return nothing(`${label} merges tokens: its rows are not patches, so none of them has a share ` +
        'left over. What its rows lose together is in the curve of the reconstruction error. Point ' +
        'at a patch to see what it was mixed into.');
    }
    const residual = data.residual(slot, k), told = data.leftovers.get(`${slot} ${k}`);
    const values = residual ? residual.share(k) : told;
    if (!values) {
      return {...nothing('This needs more than was sent for so many tokens. Asking the server.'), wants: slot};
    }
    const {count} = data.picks(slot, k), more = () => {
      const half = values.reduce((sum, share) => sum + (share > 0.5), 0);
      const words = half === 0 ? 'No patch is' : half === 1 ? '1 patch is' : `${half} patches are`;
      return `${words} more than half left over.`;
    };
    return map(data, `leftover ${slot}`, values,
      () => `Share of each patch that ${label}'s ${tokensWord(count)} cannot reconstruct`,
      '0 means that the kept ones make it up wholly, 1 that they hold nothing of it.', [0, 1], more);
  }

  const drawn = {difference, order, relevance, weight, leftover,
    A: (data, k) => kept(data, k, 'A'), B: (data, k) => kept(data, k, 'B')};
  return {drawn, map, set, kept, nothing, depthOf};
})();

// The layers that are maps: raw values over the grey photo, with their scale and their sentence.
'use strict';
(() => {
  const {number, tokensWord, colours, say, ends, layers: {nothing, waiting}} = SPARE;

  // The colours from one value to another: the level of a value, how it is written, and the bar of
  // the legend with its mean. named: what its ends mean.
  function scale(low, high, named = ['', '']) {
    const share = (value) => (high > low ? (value - low) / (high - low) : 0.5);
    const signed = low < 0, size = Math.max(Math.abs(low), Math.abs(high));
    const text = (value) => number(value, signed, size);
    const side = (at) => (at < 0.08 ? ' class="low"' : at > 0.92 ? ' class="high"' : '');
    const tick = (value, text) =>
      `<i${side(share(value))} style="left:${(100 * share(value)).toFixed(1)}%">${text}</i>`;
    return {
      text,
      level: (value) => colours.level(share(value)),
      bar: (mean) => `<span class="bar"><b>${text(low)}${named[0]}</b><span style="background:` +
        `${colours.bars.map}">${tick(mean, `mean ${text(mean)}`)}` +
        `${low < 0 && high > 0 ? tick(0, '0') : ''}</span><b>${text(high)}${named[1]}</b></span>`,
    };
  }

  // A map of raw values over the grey photo. range: shared ends, or null for the map's own;
  // label and more: functions that say what it is and what else there is to say; named: see `scale`.
  function map(data, name, values, label, meaning, range = null, more = null, named = ['', '']) {
    const {least, most, mean} = ends(values), [low, high] = range ?? [least, most];
    const {text, level, bar} = scale(low, high, named);
    return {
      name, base: 'grey',
      keys(into) {
        for (let i = 0; i < into.length; i++) into[i] = 1 + level(values[i]);
      },
      cell(paint, i, key) {
        paint.copy(i, 'grey');
        paint.fill(i, colours.levels[key - 1], 0.55);
      },
      get legend() { return bar(mean); },
      get numbers() { return `from ${text(least)} to ${text(most)}, mean ${text(mean)}`; },
      get sentence() {
        const numbers = {least: text(least), most: text(most), mean: text(mean)};
        return say('map', {label: label(), meaning, ...numbers}) +
          (range ? say('range', {low: text(low), high: text(high)}) : '') + (more ? more() : '');
      },
    };
  }

  // A map that no budget changes is made once for a comparison.
  function once(data, name, make) {
    if (!data.maps.has(name)) data.maps.set(name, make());
    return data.maps.get(name);
  }

  function relevance(data) {
    if (!data.relevance) {
      return nothing('No relevance: there is no question, or this model has no CLIP text side. “Text ' +
        'guidance by” in the settings compares by the words of its language model instead.');
    }
    const word = data.words?.chosen ?? -1;
    if (word >= 0) {
      const {names, values, range} = data.words, name = `relevance ${word}`;
      return once(data, name, () => map(data, name,
        values.subarray(word * data.n, (word + 1) * data.n),
        () => say('relevance', {what: `“${names[word]}”`, space: data.space}),
        'High means similar.', range, () => ` All ${names.length} words share this scale.`));
    }
    return once(data, 'relevance', () => map(data, 'relevance', data.relevance,
      () => say('relevance', {what: 'the question', space: data.space}), say('relevance meaning', {})));
  }

  function weight(data, k, slot) {
    const {label, weight: values} = data.slots[slot];
    if (!values) return nothing(`${label} uses no text weight.`);
    return once(data, `weight ${slot}`, () => {
      const top = values.reduce((best, v, i) => (v > values[best] ? i : best), 0);
      return map(data, `weight ${slot}`, values, () => say('weight', {label}),
        say('weight meaning', {}), null, () => say('highest', {where: data.where(top)}));
    });
  }

  function leftover(data, k, slot) {
    const {label} = data.slots[slot];
    if (!data.picks(slot, k)) return waiting(data.slots[slot], k);
    if (data.slots[slot].merges) {
      return nothing(`${label} merges tokens: its rows are not patches, so none of them has a share ` +
        'left over. What its rows lose together is in the curve of the reconstruction error. Point ' +
        'at a patch to see what it was mixed into.');
    }
    const residual = data.residual(slot, k), shares = data.leftovers.get(`${slot} ${k}`);
    const values = residual ? residual.share(k) : shares;
    if (!values && SPARE.saved) {
      return nothing('A saved page does not hold enough for this when there are many tokens or several views.');
    }
    if (!values) {
      return {...nothing('Asking the server for this map …'), wants: slot};
    }
    const {count} = data.picks(slot, k), more = () => {
      const half = values.reduce((sum, share) => sum + (share > 0.5), 0);
      const words = half === 0 ? 'No patch is' : half === 1 ? '1 patch is' : `${half} patches are`;
      return say('half left over', {patches: words});
    };
    return map(data, `leftover ${slot}`, values,
      () => say('leftover', {label, tokens: tokensWord(count)}), say('leftover meaning', {}),
      [0, 1], more, [': nothing left over', ': all of it']);
  }

  Object.assign(SPARE.layers.drawn, {relevance, weight, leftover});
  SPARE.layers.scale = scale;
})();

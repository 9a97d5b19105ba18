// Why kept, why dropped: the patch under the cursor, in both methods side by side.
'use strict';
SPARE.why = (element, trigger) => {
  const {state, number, percent, escape} = SPARE, {depthOf} = SPARE.layers;
  const body = element.querySelector('.reasons'), spoken = element.querySelector('.spoken');
  const choice = element.querySelector('.when');
  let serverReasons = new Map(), asked = 0, frame = 0;

  const step = () => choice.querySelector('input:checked').value;

  // At which pick to look: its own, the last one within the budget, or the very first.
  function stepOf(slot, picks, k) {
    const {data, cursor} = state, rank = picks.rank[cursor];
    if (step() === 'first') return 0;
    if (step() === 'last' || rank < 0) return picks.count - 1;
    return rank;
  }

  // {rank, step, factors, winner, leftover, parts} of the patch under the cursor, from here.
  function reasonFor(slot) {
    const {data, cursor, k} = state, method = data.slots[slot], picks = data.picks(slot, k);
    if (!picks) return null;
    const rank = picks.rank[cursor] < 0 ? null : picks.rank[cursor] + 1;
    if (method.merges) return {rank, factors: null, leftover: null, parts: null};
    const residual = data.residual(slot, k);
    if (!residual) return serverReasons.get(`${slot} ${cursor} ${k} ${step()}`) ?? null;
    const at = stepOf(slot, picks, k);
    const u = residual.share(at), winner = picks.order[at];
    const of = (token) => {
      if (!method.factors) return null;
      const before = picks.rank[token] >= 0 && picks.rank[token] < at;
      const parts = {novelty: before ? 0 : u[token],
                     magnitude: method.factors.magnitude?.[token] ?? 1,
                     text: method.factors.text[token]};
      return {...parts, value: parts.novelty * parts.magnitude * parts.text};
    };
    const lost = rank === null ? residual.standIns(cursor, k) : null;
    const size = (token) => Math.sqrt(data.squares[token]);
    const parts = lost?.parts
      .map(({token, coefficient}) => ({token, share: Math.abs(coefficient),
        coefficient: coefficient * size(cursor) / size(token)}))
      .sort((a, b) => Math.abs(b.coefficient) - Math.abs(a.coefficient)).slice(0, 8);
    return {rank, step: at, factors: of(cursor), winner, winning: of(winner),
            leftover: lost ? lost.left : 0, parts};
  }

  const name = (token) => state.data.where(token);

  const places = (parts) => parts.slice(0, 3).map(({token, share}) => `${name(token)} (${number(share)})`)
    .join('; ') + (parts.length > 3 ? ' …' : '');

  function mixed(slot) {
    const {data, k, cursor} = state, merge = data.mergedParts(slot, k, cursor);
    if (!merge) {
      return SPARE.saved ? '<p>A saved page does not hold which patches were merged when there are this many parts.</p>'
        : '<p>“Merged tokens”, further down the page, shows which patches were merged.</p>';
    }
    const {kept, parts, without} = merge;
    if (kept && !parts.length) return '<p>Kept as it is: nothing was mixed in.</p>';
    if (kept) {
      return `<p>Kept, with <b>${parts.length}</b> ${parts.length === 1 ? 'other' : 'others'} mixed ` +
        `in (shaded; 1 is a whole patch): ${places(parts)}.</p>`;
    }
    if (!parts.length && !without) return '<p>Dropped: no part of it is kept.</p>';
    return '<p>Mixed into ' + [
      parts.length ? `the tokens of ${places(parts)}` : '',
      without === 1 ? 'a token of no single patch' : without ? `${without} tokens of no single patch` : ''].filter(Boolean).join(', and ') + '.</p>';
  }

  function bar(label, value, most, text, winner) {
    const wide = (v) => `${(100 * Math.min(1, most ? v / most : 0)).toFixed(1)}%`;
    return `<tr><th scope="row">${label}</th><td class="track"><span style="width:${wide(value)}">` +
      `</span>${winner === null ? '' : `<i style="left:${wide(winner)}"></i>`}</td><td>${text}</td></tr>`;
  }

  // Three digits at most, of large squared norms too.
  const brief = (value) => (Math.abs(value) < 1000 ? number(value) : value.toExponential(2));
  const greatest = (values) => values.reduce((most, value) => Math.max(most, value), 0);

  // CDPruner multiplies by the square of the weight that the layer Weight shows.
  const squares = ({weight, factors: {text}}) =>
    Boolean(weight) && weight.some((value, token) => Math.abs(value - text[token]) > 1e-3);

  function factors(slot, reason) {
    const {data} = state, method = data.slots[slot];
    if (!reason.factors) return `<p>${escape(method.title)} does not choose by a product of novelty, magnitude and text weight.</p>`;
    const own = reason.factors, won = reason.winning;
    const most = {magnitude: method.factors.magnitude ? greatest(method.factors.magnitude) : 1,
                  text: greatest(method.factors.text)};
    const same = reason.winner === state.cursor;
    const versus = (key) => (same || !won ? null : won[key]);
    return '<table class="factors"><tbody>' +
      bar('novelty', own.novelty, 1, brief(own.novelty), versus('novelty')) +
      bar('× magnitude', own.magnitude, most.magnitude, brief(own.magnitude), versus('magnitude')) +
      bar(squares(method) ? '× text weight²' : '× text weight', own.text, most.text,
        brief(own.text), versus('text')) +
      bar('= product', own.value, won ? Math.max(won.value, own.value) : own.value,
        brief(own.value), versus('value')) + '</tbody></table>' +
      `<p>Values at pick ${reason.step + 1}, which took ` + (same ? 'this patch: it had the largest product.'
        : `${name(reason.winner)} with a product of ${brief(won.value)} (the marks).`) + '</p>';
  }

  // Why, in one sentence: of a patch that was not picked, the factor that was smallest beside that of
  // the patch picked in its place; of one that was, the product that no other had.
  function verdict(method, reason, count) {
    const {rank, factors: own, winning: won, step: at, winner} = reason;
    if (!own) return '';
    const text = squares(method) ? 'squared text weight' : 'text weight';
    const words = {novelty: 'novelty', magnitude: 'magnitude', text};
    if (winner === state.cursor) {
      return `Kept: at pick ${at + 1} no other patch had a larger product.`;
    }
    if (!won || !(won.value > own.value)) return '';
    if (own.novelty === 0 && rank !== null) return `Already picked before pick ${at + 1}.`;
    const [least] = Object.keys(words).sort((a, b) => own[a] / won[a] - own[b] / won[b]);
    const share = own[least] / won[least], fate = rank === null ? 'Not kept' : 'Not picked yet';
    const than = `that of the patch picked ${at + 1 === count ? 'last' : 'then'}`;
    if (!(share > 0)) return `${fate}: its ${words[least]} is 0.`;
    if (share > 0.5) return `${fate}: its ${words[least]} is ${percent(share)} of ${than}.`;
    const times = share < 0.001 ? 'more than 1,000' : number(1 / share);
    return `${fate}: its ${words[least]} is ${times} times smaller than ${than}.`;
  }

  // How far a patch got in a method that drops tokens between layers, and the merged row that it is
  // in at the layer looked at.
  function way(slot) {
    const {data, k, cursor} = state, layers = data.perLayer(slot, k);
    if (!layers) {
      return k < data.slots[slot].lowest ? `<p>It cannot meet a budget of ${k}.</p>`
        : SPARE.saved ? '<p>Known at the budget of its answer only.</p>'
          : '<p>Known once it has answered at this budget.</p>';
    }
    const out = layers.sets.find((set) => !set.kept[cursor]);
    const left = out?.layer ? `<b>removed before layer ${out.layer + 1}</b> of ${data.depth}`
      : '<b>not chosen</b> before the language model';
    const start = `<p class="rank">${out ? left : `<b>kept</b> in all ${data.depth} layers`}` +
      `${out?.merged[cursor] ? ', merged into another row' : ''}</p>`;
    const at = depthOf(data), held = data.tokensIn(slot, k, at);
    if (held.kept[cursor] ? !held.grown : !out.merged[cursor]) return start;
    const row = data.mergedRow(slot, k, at, cursor);
    if (!row) {
      const there = held.kept[cursor] || held.merged[cursor];
      return start + (there ? '' : `<p>In layer ${at + 1} that row is gone too.</p>`);
    }
    const {place, parts} = row, count = parts.length;
    return `${start}<p>In layer ${at + 1} it is in merged row ${place} of ${held.rows}, ` +
      (count === 1 ? 'alone.</p>' : `made of <b>${count}</b> patches (shaded; 1 is a whole patch): ` +
        `${places(parts)}.</p>`);
  }

  function column(slot) {
    const {data, k} = state, method = data.slots[slot], reason = reasonFor(slot);
    let inside;
    if (method.inside) {
      inside = way(slot);
    } else if (!reason) {
      inside = SPARE.saved ? '<p>A saved page does not hold the reasons for many tokens or several views.</p>'
        : '<p>Asking the server …</p>';
    } else {
      const {count} = data.picks(slot, k);
      const rank = reason.rank === null ? `<b>not among</b> the ${count === 1 ? 'one pick' : `${count} picks`}`
        : `<b>pick ${reason.rank}</b> of ${count}`;
      const sentence = verdict(method, reason, count);
      // A sentence on a patch that is not kept says so itself.
      inside = (sentence ? `<p class="verdict">${sentence}</p>` : '') +
        (sentence && reason.rank === null ? '' : `<p class="rank">${rank}</p>`) +
        factors(slot, reason);
      if (method.merges) inside += mixed(slot);
      else if (reason.rank === null && reason.parts) {
        const [first] = reason.parts;
        inside += `<p>Left over: <b>${percent(reason.leftover)}</b>. ` + (first
          ? `Rebuilt mostly from ${reason.parts.slice(0, 3).map(({token, coefficient}) =>
              `${name(token)} (${number(coefficient, true)})`).join('; ')}.`
          : 'No kept patch helps to rebuild it.') + '</p>';
      } else if (reason.rank !== null) {
        inside += '<p>Kept, so nothing of it is left over.</p>';
      }
    }
    return `<section class="reason ${slot.toLowerCase()}"><h3>${escape(method.label)}</h3>${inside}</section>`;
  }

  const MOST_LINES = 5;  // per method; more hide the picture

  // To those that stand in for the patch, or whose tokens it was mixed into; and the patches that
  // were mixed into its own, or share its merged row in the layer looked at.
  function marks() {
    const {data, k, cursor} = state, lines = [], tints = [];
    for (const slot of ['A', 'B']) {
      const mine = {slot, colour: SPARE.colours.mark[slot]};
      const row = data.slots[slot].inside && data.mergedRow(slot, k, depthOf(data), cursor);
      const merged = data.slots[slot].merges && data.mergedParts(slot, k, cursor);
      if (row || merged?.kept) {
        tints.push(...(row || merged).parts.map((part) => ({...part, ...mine})));
        continue;
      }
      for (const {token, share} of (merged ? merged.parts : reasonFor(slot)?.parts ?? []).slice(0, MOST_LINES)) {
        if (!merged && share < 0.05) continue;
        lines.push({from: cursor, to: token, width: Math.min(9, 1 + 8 * share), ...mine});
      }
    }
    return {lines, tints};
  }

  // What is read aloud as the cursor moves: one short sentence.
  function shortly() {
    const {data, k, cursor} = state, fates = ['A', 'B'].map((slot) => {
      const picks = data.picks(slot, k), rank = picks?.rank[cursor];
      return picks ? `${slot} ${rank < 0 ? 'not kept' : `pick ${rank + 1}`}` : '';
    });
    if (state.layer === 'own') fates.push(`${state.own[cursor] ? 'in' : 'not in'} your set`);
    return `${[name(cursor), ...fates.filter(Boolean)].join(', ')}.`;
  }

  // The first thing that is said of each method, a line for each.
  const firstReasons = () => [...body.querySelectorAll('.reason')].map((section) => {
    const first = section.querySelector('.verdict, .rank') ?? section.querySelector('p');
    return `<span><b>${section.querySelector('h3').innerHTML}</b> ${first.innerHTML}</span>`;
  }).join('');

  function draw() {
    frame = 0;
    const {data, cursor} = state;
    if (!data || cursor === null) return;
    if (!['A', 'B'].every((slot) => data.isReady(slot, state.k))) return soon();
    for (const slot of ['A', 'B']) {
      if (data.picks(slot, state.k) && !reasonFor(slot)) ask();
    }
    const cosine = data.relevance
      ? `raw cosine <b>${number(data.relevance[cursor], true)}</b> (mean ` +
        `${number(SPARE.ends(data.relevance).mean, true)})`
      : 'no relevance here';
    body.innerHTML = `<p class="where"><b>Patch ${name(cursor)}</b> (index ${cursor})` +
      `${data.padding[cursor] ? ', in padding' : ''} · ${cosine}</p>` +
      `<div class="both">${column('A')}${column('B')}</div>`;
    const words = shortly();  // written again, it would be read out again
    if (spoken.textContent !== words) spoken.textContent = words;
    Object.assign(state, marks(), {reasons: firstReasons()});
    SPARE.emit('remark');
  }

  function ask() {  // once the pointer rests
    clearTimeout(asked);
    asked = setTimeout(() => {
      SPARE.ask(trigger, 'why', {patch: state.cursor, budget: state.k, step: step()});
    }, 150);
  }

  const soon = () => { if (state.cursor !== null) frame ||= requestAnimationFrame(draw); };
  for (const event of ['cursor', 'budget', 'repaint', 'painted']) SPARE.on(event, soon);
  SPARE.on('data', () => { serverReasons = new Map(); soon(); });
  SPARE.on('reply', (reply) => {
    if (reply.kind === 'why' && reply.of === state.data?.of) {
      for (const [slot, reason] of Object.entries(reply.reasons)) {
        serverReasons.set(`${slot} ${reply.patch} ${reply.budget} ${reply.step}`, reason);
      }
    }
    soon();
  });
  choice.addEventListener('change', soon);
};

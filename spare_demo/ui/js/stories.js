// What the three stories say, and what they set on the page's own controls. Every number in them is
// read off the comparison that the page shows, whatever it is.
//
// A story is {lacks(data), suits(data), steps}: `lacks` gives the sentence why it cannot be told
// here, or null; `suits` whether A and B are methods that it can compare, absent where any are. A step
// is {set(data), words(data)}: `words` gives null while what it reads is still on its way, and `set` false.
'use strict';
SPARE.stories = (() => {
  const {state, emit, number, say, tokensWord} = SPARE;
  const FEW = 16, MORE = 64;  // budgets that the stories set

  const label = (data, slot) => data.slots[slot].label;
  const mean = (values) => SPARE.ends(values).mean;
  const range = (n) => Array.from({length: n}, (_, i) => i);

  function show(data, layer, k) {
    emit('layer', layer);
    const budget = Math.min(k, data.n);
    if (state.k !== budget) SPARE.setBudget(budget, true);
  }

  function point(token) {
    Object.assign(state, {cursor: token, lit: true, pinned: 'by a story'});
    emit('cursor', token);
    emit('remark');
  }

  // (n,) 1 for every patch whose colours vary no more than in the median patch, and for padding. In whole numbers: variance times the square of the number of pixels.
  function plainPatches(data) {
    if (data.plain) return data.plain;
    const {grid, n, ground, padding} = data, p = grid.patch, count = p * p;
    const context = ground.photo.getContext('2d');
    const varies = range(n).map((token) => {
      const {row, col} = data.place(token);
      const pixels = context.getImageData(grid.x + col * p, grid.y + row * p, p, p).data;
      let total = 0;
      for (let channel = 0; channel < 3; channel++) {
        let sum = 0, squares = 0;
        for (let at = channel; at < pixels.length; at += 4) {
          sum += pixels[at];
          squares += pixels[at] * pixels[at];
        }
        total += count * squares - sum * sum;
      }
      return total;
    });
    const inPicture = varies.filter((_, token) => !padding[token]).sort((a, b) => a - b);
    const median = inPicture[Math.floor((inPicture.length - 1) / 2)];
    return (data.plain = Uint8Array.from(varies, (value, i) => padding[i] || value <= median));
  }

  const plainWord = (data) => (data.hasPadding ? 'plain, or padding' : 'plain');

  function plainPicks(data) {
    const plain = plainPatches(data);
    return [...data.picks('A', state.k).order].filter((token) => plain[token]);
  }

  // An answer of the page with its verdict; null while it is being written.
  function answerIn(card) {
    const verdict = card?.querySelector('.verdict');
    return verdict && `“${card.querySelector('.answer-text').textContent.trim()}” (${verdict.textContent})`;
  }

  function answerOfA() {
    const answers = document.querySelector('#answers .answers');
    return Number(answers.dataset.budget) === state.k ? answerIn(answers.querySelector('.card.a')) : null;
  }

  const pixels = {
    lacks(data) {
      const slot = data.slots.A;
      if (!document.querySelector('#answers .answers')) {
        return 'This story needs answers, and this model gives none.';
      }
      if (document.querySelector('#answers .noise')) {
        return 'The model here knows drawn scenes only, so its answers here mean nothing. ' +
          'Choose an example, then open the story again.';
      }
      if (slot.inside || slot.merges) {
        return `${slot.label} ${slot.inside ? 'chooses inside the language model, layer by layer'
          : 'merges tokens'}, so no one set of patches stands for what it keeps. Choose another method ` +
          'for A, then open the story again.';
      }
      return null;
    },
    steps: [
      {
        set: (data) => show(data, 'kept', FEW),
        words(data) {
          const picks = data.picks('A', state.k);
          if (!picks) return picks;
          const plain = plainPicks(data).length;
          const lie = plain === 1 ? ['lies on a patch that is', 'its'] : ['lie on patches that are', 'their'];
          return `${label(data, 'A')} keeps ${picks.count} of ${tokensWord(data.n)}. ` +
            `${plain} of them ${lie[0]} ${plainWord(data)}: ${lie[1]} ` +
            'colours vary no more than in the median patch. The vision tower makes each token from the ' +
            'whole picture, so a token can hold what its patch does not show.';
        },
      },
      {
        set: (data) => show(data, 'kept', FEW),
        words(data) {
          const answer = answerOfA();
          return answer ? `From the tokens that ${label(data, 'A')} keeps the model answers ${answer}. ` +
            'It received no other token of the picture: the dark patches were left out.'
            : `The answer from ${tokensWord(state.k)} is on its way. Where answers take long, press ` +
              `“Answer at ${state.k}” below them.`;
        },
      },
      {
        set(data) {
          if (!data.picks('A', state.k)) return false;
          const flags = new Uint8Array(data.n);
          for (const token of plainPicks(data)) flags[token] = 1;
          emit('own', flags);
          emit('layer', 'own');
        },
        words(data) {
          const count = state.own.reduce((sum, flag) => sum + flag, 0);
          const card = document.querySelector('#own-answer .card');
          const answered = card?.querySelector('h3').textContent.endsWith(` ${count}`) && answerIn(card);
          if (!count) return 'None of these patches is plain. Draw a set of your own on the picture, and ask.';
          return `“Your set” began with A's plain patches and now holds ${count}. ` +
            (answered ? `From these alone the model answers ${answered}.`
              : 'Press Ask again below: does the answer survive?');
        },
      },
    ],
  };

  // ‖X - XP‖ / ‖X‖, P the projector on the span of the slot's picks.
  function reconstructionError(data, slot) {
    const shares = data.residual(slot, state.k).share(state.k);
    let left = 0, all = 0;
    for (let i = 0; i < data.n; i++) {
      left += shares[i] * data.squares[i];
      all += data.squares[i];
    }
    return Math.sqrt(left / all);
  }

  function errorsInWords(data) {
    const [a, b] = ['A', 'B'].map((slot) => number(reconstructionError(data, slot)));
    const words = `the reconstruction error is ${a} for ${label(data, 'A')} and ${b} for ${label(data, 'B')}`;
    if (a === b) return `${words}: the same`;
    return `${words}: here ${label(data, Number(a) < Number(b) ? 'A' : 'B')} rebuilds more`;
  }

  const picked = (data) => ['A', 'B'].every((slot) => data.picks(slot, state.k));

  const diversity = {
    lacks: (data) => (data.directions ? null
      : 'This story needs the features of all tokens in the page. Here they are too large for it, or belong ' +
        'to several views that share the budget. Try the built-in model, or, where a smaller picture has ' +
        'fewer tokens, a smaller picture.'),
    suits: ({slots: {A, B}}) => /^spare/.test(A.name) && /^(cdpruner|divprune|dart-div)/.test(B.name),
    steps: [
      {
        set: (data) => show(data, 'order', FEW),
        words(data) {
          if (!picked(data)) return null;
          const [a, b] = ['A', 'B'].map((slot) => data.picks(slot, state.k));
          const {both, jaccard} = data.counts(a, b);
          const chance = SPARE.expectedJaccard(data.n, a.count, b.count).toFixed(2);
          return `At each pick ${label(data, 'A')} takes the patch with the most left to rebuild, ` +
            `${label(data, 'B')} the one least like its picks so far. Methods that read the question let ` +
            `it weigh in. The first picks are ${data.where(a.order[0])} and ${data.where(b.order[0])}. ` +
            `Of ${a.count} picks they share ` +
            `${both}. ${say('jaccard', {share: jaccard.toFixed(2), chance})}.`;
        },
      },
      {
        set: (data) => show(data, 'leftover', FEW),
        words(data) {
          if (!picked(data)) return null;
          const left = data.residual('B', state.k).share(state.k), most = Math.max(...left);
          return `Leftover is the share of a patch that the kept tokens cannot rebuild. With ` +
            `${tokensWord(data.picks('A', state.k).count)}, ${errorsInWords(data)}. ` +
            `${label(data, 'B')} rebuilds ${data.where(left.indexOf(most))} worst: ${number(most)} of it is left over.`;
        },
      },
      {
        set: (data) => show(data, 'leftover', MORE),
        words(data) {
          return picked(data) && `With ${tokensWord(data.picks('A', state.k).count)}, ${errorsInWords(data)}. ` +
            '“What is lost”, further down, shows it at every budget and for random picks. It says what a ' +
            'linear map could restore, not what the model answers, so compare the answers too.';
        },
      },
    ],
  };

  function extremes({relevance, n}) {
    const order = range(n).sort((a, b) => relevance[b] - relevance[a]);
    return {order, highest: order[0], lowest: order[n - 1]};
  }

  function keptAndDropped(data, slot) {
    const {kept} = data.picks(slot, state.k);
    return [1, 0].map((flag) => mean([...data.relevance].filter((_, i) => kept[i] === flag)));
  }

  const relevance = {
    lacks: (data) => (data.relevance ? null
      : 'There is no relevance here: there is no question, or this model has no CLIP text side. Ask a ' +
        'question, or set “Text guidance by” to words, then open the story again.'),
    suits: ({slots: {A}}) => /^spare/.test(A.name) && A.weight !== null,
    steps: [
      {
        set(data) {
          emit('layer', 'relevance');
          point(extremes(data).highest);
        },
        words(data) {
          const {order, highest} = extremes(data), plain = plainPatches(data);
          const top = order.slice(0, Math.min(FEW, data.n));
          return `Relevance is the cosine of a patch with the question, ${data.space}. Its mean over ` +
            `${tokensWord(data.n)} is ${number(mean(data.relevance))}; the highest is ` +
            `${number(data.relevance[highest])}, at ${data.where(highest)}. Of the ${top.length} most ` +
            `relevant patches, ${top.filter((token) => plain[token]).length} are ${plainWord(data)}: their ` +
            'colours vary no more than in the median patch.';
        },
      },
      {
        set(data) {
          emit('unlight');
          show(data, 'kept', MORE);
        },
        words(data) {
          const picks = data.picks('A', state.k);
          if (!picks) return null;
          if (picks.count === data.n) return 'All tokens are kept. Choose a smaller budget.';
          const [kept, dropped] = keptAndDropped(data, 'A');
          return `The ${tokensWord(picks.count)} that ${label(data, 'A')} keeps have a mean cosine of ` +
            `${number(kept)} with the question, those it drops ${number(dropped)}: on the whole it keeps ` +
            `what is ${kept < dropped ? 'less' : 'more'} like the question.`;
        },
      },
      {
        set() { emit('layer', 'weight'); },
        words(data) {
          const {highest, lowest} = extremes(data), {weight} = data.slots.A;
          return `The question enters ${label(data, 'A')} as a weight on every patch. It is ` +
            `${number(weight[highest])} where relevance is highest, at ${data.where(highest)}, and ` +
            `${number(weight[lowest])} where it is lowest, at ${data.where(lowest)}.`;
        },
      },
    ],
  };

  return {pixels, diversity, relevance};
})();

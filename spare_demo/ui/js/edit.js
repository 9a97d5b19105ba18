// Change the kept set and ask again: a set of one's own, drawn on the viewer.
'use strict';
SPARE.edit = (element, props, trigger) => {
  const {state, escape} = SPARE, {depthOf} = SPARE.layers;
  const $ = (selector) => element.querySelector(selector);
  const message = $('.message-place'), EMPTY = 'Your set is empty. Keep at least one visual token.';
  let past = [], future = [], stroke = null, picture = null;

  SPARE.layers.drawn.own = (data) => {
    const own = SPARE.layers.set(data, 'own', 'Your set', SPARE.colours.mark.H, state.own, count());
    return count() ? own : {...own, sentence: 'Your set is empty. Choose one under “Start from”, or draw on the picture.'};
  };

  const count = () => state.own?.reduce((sum, flag) => sum + flag, 0) ?? 0;
  const tokens = () => [...state.own].flatMap((flag, token) => (flag ? [token] : []));

  function say(sentence = '') {
    message.replaceChildren();
    SPARE.tell(message, sentence);
  }

  function update() {
    const n = state.data?.n ?? 0;
    $('.count').textContent = `${SPARE.tokensWord(count())} of ${n} kept`;
    $('.undo').disabled = !past.length;
    $('.redo').disabled = !future.length;
    SPARE.emit('repaint');
  }

  function remember() {
    past.push(state.own.slice());
    if (past.length > 200) past.shift();
    future = [];
  }

  function replace(flags) {
    remember();
    state.own = flags;
    say();
    update();
  }

  SPARE.on('own', replace);

  // The classes of the difference picture, and either method's picks: whose sets each reads, and how.
  const starts = {
    a: ['A', (a) => a], b: ['B', (a, b) => b],
    'only-a': ['AB', (a, b) => a && !b], 'only-b': ['AB', (a, b) => b && !a],
    both: ['AB', (a, b) => a && b], neither: ['AB', (a, b) => !a && !b],
    all: ['', () => true], none: ['', () => false],
  };

  function start(kind) {
    const {data, k} = state, [reads, keeps] = starts[kind];
    // Of a method inside the language model, the tokens of the layer that is looked at.
    const [a, b] = ['A', 'B'].map((name) => data.tokensIn(name, k, depthOf(data))?.kept);
    const lacking = [...reads].find((name) => !{A: a, B: b}[name]);
    if (lacking) {
      const {label, lowest} = data.slots[lacking];
      return say(k < lowest ? `${label} cannot meet a budget of ${k}. Choose ${lowest} or more.`
        : `The picks of ${label} at this budget are not here yet. Try again once they are drawn.`);
    }
    replace(Uint8Array.from({length: data.n}, (_, i) => keeps(a?.[i], b?.[i])));
  }

  const chosen = (name) => $(`input[name="${name}"]:checked`).value;
  const editing = () => state.layer === 'own' && state.own;

  function aim(token) {  // what the stroke does to the patches it meets
    const how = chosen('effect');
    return how === 'flip' ? 1 - state.own[token] : Number(how === 'add');
  }

  function inside(from, to) {
    const {data} = state, p = data.place(from), q = data.place(to), cells = [];
    for (let row = Math.min(p.row, q.row); row <= Math.max(p.row, q.row); row++) {
      for (let col = Math.min(p.col, q.col); col <= Math.max(p.col, q.col); col++) {
        cells.push(data.at(row, col));
      }
    }
    return cells.filter((token) => token >= 0);
  }

  SPARE.on('press', (token) => {
    if (!editing()) return;
    remember();
    stroke = {from: token, last: token, before: state.own.slice(), value: aim(token)};
    paint(token);
  });

  function paint(token) {
    if (chosen('tool') === 'rectangle') {
      state.own = stroke.before.slice();
      for (const i of inside(stroke.from, token)) state.own[i] = stroke.value;
    } else {
      for (const i of line(stroke.last, token)) state.own[i] = stroke.value;
    }
    stroke.last = token;
    say();
    update();
  }

  function line(from, to) {  // a fast pointer skips patches
    const {data} = state, p = data.place(from), q = data.place(to);
    const steps = Math.max(Math.abs(q.row - p.row), Math.abs(q.col - p.col), 1);
    return Array.from({length: steps + 1}, (_, i) => data.at(
      Math.round(p.row + (q.row - p.row) * i / steps),
      Math.round(p.col + (q.col - p.col) * i / steps))).filter((token) => token >= 0);
  }

  SPARE.on('stroke', (token) => { if (stroke && token !== stroke.last) paint(token); });
  SPARE.on('lift', () => { stroke = null; });
  SPARE.on('toggle', (token) => {
    if (!editing() || token === null) return;
    remember();
    state.own[token] = aim(token);
    update();
  });

  function back(from, to) {
    if (!from.length) return;
    to.push(state.own);
    state.own = from.pop();
    update();
  }
  // A button that is disabled loses the focus: it goes on to the other one.
  $('.undo').addEventListener('click', () => {
    back(past, future);
    if (!past.length) $('.redo').focus();
  });
  $('.redo').addEventListener('click', () => {
    back(future, past);
    if (!future.length) $('.undo').focus();
  });
  document.addEventListener('keydown', (event) => {
    if (!editing() || !event.target.closest?.('.board') || !(event.ctrlKey || event.metaKey)) return;
    const key = event.key.toLowerCase();
    if (key === 'z' || key === 'y') {
      event.preventDefault();
      if (key === 'y' || event.shiftKey) back(future, past); else back(past, future);
    }
  });
  for (const button of element.querySelectorAll('[data-start]')) {
    button.addEventListener('click', () => start(button.dataset.start));
  }

  // The answer comes above the others: beside the picture, on narrow pages below this.
  const place = () => document.querySelector('#own-answer');
  const arrived = new MutationObserver(() => {
    arrived.disconnect();
    SPARE.bring(place());
  });

  function ask() {
    if (!count()) return say(EMPTY);
    say();
    props.value = JSON.stringify(tokens());
    trigger('ask_own');
    arrived.observe(place(), {childList: true, subtree: true});
  }
  $('.again').addEventListener('click', ask);

  $('.export').addEventListener('click', () => {
    if (!count()) return say(EMPTY);
    SPARE.save(new Blob([JSON.stringify({mine: tokens()})], {type: 'application/json'}), 'picks.json');
  });

  // A list, {label: list}, a whole result.json, or just numbers -> the indices and, of several
  // lists, a word on which was taken; throws a sentence.
  function read(text) {
    let picks, note = '';
    const words = text.split(/[\s,;]+/).filter(Boolean);
    try {
      picks = words.every((word) => /^\d+$/.test(word)) ? words.map(Number) : JSON.parse(text);
    } catch {
      picks = null;
    }
    if (picks?.selections) picks = picks.selections;
    if (picks && typeof picks === 'object' && !Array.isArray(picks)) {
      const names = Object.keys(picks);
      if (names.length > 1) note = `The file has ${names.length} lists; the first, “${names[0]}”, is used.`;
      [picks] = Object.values(picks);
    }
    picks = picks?.order ?? picks;
    const n = state.data.n;
    if (!Array.isArray(picks) || !picks.length || !picks.every(Number.isInteger)) {
      throw new Error('These picks could not be read. Give patch indices as whole numbers, such as 3, 17, 240.');
    }
    if (picks.some((token) => token < 0 || token >= n)) {
      throw new Error(`This picture has ${n} visual tokens, numbered 0 to ${n - 1}. Give indices within this range.`);
    }
    return {list: picks, note};
  }

  function keep(list) {
    const flags = new Uint8Array(state.data.n);
    for (const token of list) flags[token] = 1;
    replace(flags);
  }

  function take(text) {
    try {
      const {list, note} = read(text);
      keep(list);
      if (note) message.innerHTML = `<p class="note" role="status">${escape(note)}</p>`;
    } catch (error) {
      say(error.message);
    }
  }
  $('.take').addEventListener('click', () => take($('.list').value));
  $('.file').addEventListener('change', async (event) => {
    const [file] = event.target.files;
    if (file) take(await file.text());
    event.target.value = '';
  });

  // A's picks are what there is to change; an empty set would be nothing to start from.
  const begin = () => {
    if (state.layer === 'own' && state.data && !count() && !past.length) start('a');
  };
  SPARE.on('chosen', begin);
  // With these tokens kept, as if they had been drawn.
  SPARE.askWith = (list) => {
    SPARE.emit('layer', 'own');
    keep(list);
    ask();
  };

  SPARE.editByHand = () => {
    SPARE.emit('layer', 'own');
    $('[data-start]').focus();  // the button that was pressed is gone
    SPARE.bring(document.querySelector('.board'));  // on a narrow page below all of this
  };

  SPARE.on('data', (data) => {
    if (picture !== data.key || state.own?.length !== data.n) state.own = null;
    picture = data.key;
    if (!state.own) {
      state.own = new Uint8Array(data.n);
      past = [];
      future = [];
    }
    update();
    if (data.tokensIn('A', state.k, depthOf(data))) begin();
  });
};

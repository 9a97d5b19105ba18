// The patch viewer: draws the layers, follows pointer, keys and the budget slider. No round trip.
'use strict';
// cursor: the patch that is explained; lit: whether it is marked on the pictures; pinned: whether it
// stays when the pointer leaves, 'by a story' where one pinned it; tints and lines: the marks of others
// beside it, reasons: why each method kept it or not, in HTML (js/why.js); pane: which picture is shown
// large, null for all three.
SPARE.state = {data: null, k: 1, cursor: null, lit: false, pinned: false, tints: [], lines: [],
               reasons: '', depth: null, layer: 'kept', pane: null};

SPARE.viewer = (element, props, trigger, watch) => {
  const {state} = SPARE;
  const $ = (selector) => element.querySelector(selector);
  const slots = ['A', 'A', 'B'];  // whose picture each is; the first is of both, or of neither
  const panes = [...element.querySelectorAll('figure')].map((figure) => new SPARE.Pane(figure));
  const {trios, titles, drawn} = SPARE.layers;
  const grounds = new Map();  // the pictures of the last comparisons, by key
  const words = SPARE.words($('.words-of'), trigger), caption = SPARE.caption(element);
  const RESTS = 100;  // milliseconds without a new picture, after which the slider rests
  const lastRequests = new Map();
  let frame = 0, layers = null, paintedAt = 0;

  // The server names a file (ui/viewer.py) in a folder that is named by what the file holds: sent
  // again, as a page that asks by itself gets it, the same comparison is not loaded again.
  const folderOf = (path) => path.replace(/[^\\/]*$/, '');
  let file = {};  // of the comparison that is to be shown: its folder, and what it holds

  const load = async (path) => SPARE.unbundle(await (await SPARE.fetchFile(path)).arrayBuffer());

  async function read() {
    const path = props.value;
    if (!path) return;
    if (!state.data) caption.say('The pictures are on their way.');
    const folder = folderOf(path);
    if (file.folder !== folder) file = {folder, content: load(path)};
    const wanted = file;
    try {
      const sent = await wanted.content;
      if (wanted === file) SPARE.show(sent);
    } catch {
      if (wanted !== file) return;
      file = {};
      const sentence = 'These pictures did not arrive. Press Ask once more.';
      caption.say(sentence);
      for (const {words} of panes) words.textContent = sentence;
    }
  }

  async function show(sent) {
    const data = new SPARE.Comparison(sent);
    if (!grounds.has(sent.key)) {
      const photo = await createImageBitmap(new Blob([sent.picture]));
      const ground = new SPARE.Ground(photo, data.grid);
      grounds.set(sent.key, ground);
      setTimeout(() => ground.grey, 1000);  // before somebody looks at a map
      if (grounds.size > 3) grounds.delete(grounds.keys().next().value);
    }
    if (sent !== latest) return;  // another one came while the photo was read
    data.ground = grounds.get(sent.key);
    state.data = data;
    if (layers?.of === data.of) data.addLayers(layers.slots);  // they came before the photo was read
    if (state.cursor >= data.n) state.cursor = null;
    if (!state.pinned) state.lit = false;
    lastRequests.clear();
    state.k = Number(document.querySelector('#budget input[type=range]')?.value ?? sent.shown);
    const aspect = data.grid.width / data.grid.height;
    // Beside each other such pictures would be too low to point at their patches.
    element.firstElementChild.classList.toggle('wide', aspect > 2);
    for (const pane of panes) {
      pane.painter.set(data.ground);
      pane.board.style.setProperty('--aspect', aspect);
      pane.board.classList.toggle('strip', aspect > 20);
      pane.badge.textContent = data.badge;
    }
    SPARE.emit('data', data);
    paint();
    ahead();
  }

  const shownSlots = () => (state.pane === null ? ['A', 'B'] : [slots[state.pane]]);

  // Leftovers of later budgets, while nobody waits and nothing moves.
  function ahead() {
    const {data, k} = state;
    if (!data?.directions || state.layer !== 'leftover') return;
    if (performance.now() - paintedAt < RESTS) { setTimeout(ahead, RESTS); return; }
    const residuals = shownSlots().map((slot) => data.residual(slot, k)).filter(Boolean);
    if (residuals.some((residual) => !residual.ahead(6))) setTimeout(ahead, 12);
  }

  function paint() {
    frame = 0;
    const {data, k, layer} = state;
    if (!data) return;
    if (layer === 'leftover' && !shownSlots().every((slot) => data.isReady(slot, k))) return soon();
    const wanted = trios[layer];
    const pictures = panes.map((pane, i) => {
      pane.figure.hidden = state.pane !== null && state.pane !== i;
      if (pane.figure.hidden) return null;
      const picture = drawn[wanted[i]](data, k, slots[i]);
      pane.show(picture, titles[wanted[i]] ?? data.slots[slots[i]].label);
      if (picture.wants) request('leftover', picture.wants, k);
      return picture;
    });
    // The words on a patch and a set by hand read both methods' picks, whatever is shown.
    for (const slot of ['A', 'B']) if (data.lacksPicks(slot, k)) request('picks', slot, k);
    if (state.pane === null) caption.describe(pictures.filter((_, i) => wanted[i] === layer));
    mark();
    paintedAt = performance.now();
    SPARE.emit('painted');
  }

  // What the page lacks of a slot, once for each budget.
  function request(kind, slot, k) {
    if (lastRequests.get(`${kind} ${slot}`) === k) return;
    lastRequests.set(`${kind} ${slot}`, k);
    SPARE.ask(trigger, kind, {slot, budget: k});
  }

  function soon() {
    frame ||= requestAnimationFrame(paint);
  }

  function mark() {
    const {layer} = state;
    panes.forEach((pane, i) => {
      if (pane.figure.hidden) return;
      const of = i ? [slots[i]] : layer === 'difference' ? ['A', 'B'] : [];
      pane.mark(state, of);
    });
  }

  // From a cell some cells on, as far as there are any; cells without a token are stepped over.
  function walk({row, col}, down, right) {
    const {data} = state, by = [Math.sign(down), Math.sign(right)];
    let target = data.at(row, col);
    for (let left = Math.abs(down + right); left > 0;) {
      [row, col] = [row + by[0], col + by[1]];
      if (row < 0 || col < 0 || row >= data.grid.rows || col >= data.grid.cols) break;
      const token = data.at(row, col);
      if (token >= 0) { target = token; left--; }
    }
    return target;
  }

  function moveTo(token) {
    if (token === state.cursor && state.lit) return;
    Object.assign(state, {cursor: token, lit: true});
    SPARE.emit('cursor', token);
    mark();
  }

  // The words on the patch stay, its marks on the pictures go.
  function unlight() {
    Object.assign(state, {lit: false, pinned: false});
    if (state.data) mark();
    SPARE.emit('unlit');
  }
  SPARE.on('unlight', unlight);
  document.addEventListener('keydown', ({key}) => { if (key === 'Escape' && state.lit) unlight(); });

  for (const pane of panes) {
    const {over, board} = pane;
    const at = (event) => (state.data ? pane.token(event) : null);
    const editing = () => state.layer === 'own' && pane === panes[0];
    over.addEventListener('pointermove', (event) => {
      const token = at(event);
      if (token === null) return;
      if (!state.pinned && (editing() || event.pointerType !== 'touch')) moveTo(token);
      SPARE.emit('stroke', token);
    });
    over.addEventListener('pointerleave', ({pointerType}) => {
      // A finger that is lifted leaves as well, but what it tapped stays.
      if (!state.pinned && pointerType === 'mouse') unlight();
    });
    over.addEventListener('pointerdown', (event) => {
      const token = at(event);
      if (token === null || !editing()) return;
      moveTo(token);
      state.pinned = false;
      over.setPointerCapture(event.pointerId);
      event.preventDefault();
      SPARE.emit('press', token);
      board.focus({preventScroll: true});
    });
    // Not as soon as it is pressed: a finger that scrolls or swipes presses too.
    over.addEventListener('click', (event) => {
      const token = at(event);
      if (token === null || editing()) return;
      const again = state.pinned && token === state.cursor;
      moveTo(token);
      state.pinned = !again;
      board.focus({preventScroll: true});
      SPARE.emit('look', pane.heightOf(token));
    });
    for (const end of ['pointerup', 'pointercancel']) {
      over.addEventListener(end, () => SPARE.emit('lift'));
    }
    board.addEventListener('keydown', (event) => {
      if (!state.data) return;
      const {data} = state, {rows, cols} = data.grid;
      const from = data.place(state.cursor ?? Math.floor(data.n / 2));
      const step = event.shiftKey ? 5 : 1;
      const [down, right] = {
        ArrowUp: [-step, 0], ArrowDown: [step, 0], ArrowLeft: [0, -step], ArrowRight: [0, step],
        Home: [0, -cols], End: [0, cols], PageUp: [-rows, 0], PageDown: [rows, 0],
      }[event.key] ?? [0, 0];
      if (down || right) {
        event.preventDefault();
        state.pinned = false;
        moveTo(walk(from, down, right));
      } else if (event.key === 'Enter' || event.key === ' ') {
        event.preventDefault();
        SPARE.emit('toggle', state.cursor);
        if (state.cursor !== null) SPARE.emit('look', pane.heightOf(state.cursor));
      }
    });
  }

  const checked = (name) => $(`input[name=${name}]:checked`);

  function choose(changed) {
    // The set that is changed is the first picture: who asks for another leaves it.
    if (checked('layer').value === 'own' && checked('pane').value > 0) {
      $(changed === 'pane' ? 'input[name=layer][value=kept]' : 'input[name=pane]').checked = true;
    }
    state.layer = checked('layer').value;
    state.pane = checked('pane').value === '' ? null : Number(checked('pane').value);
    const rare = checked('layer').closest('.more');
    $('.more').classList.toggle('chosen', Boolean(rare));
    // By the keyboard it is open until it is left, so that the arrow keys pass through all of it.
    if (!$('.more input:focus-visible')) $('.more').open = false;
    $('.more summary').textContent = rare ? checked('layer').nextElementSibling.textContent : 'More';
    element.firstElementChild.classList.toggle('large', state.pane !== null);
    document.body.classList.toggle('editing', state.layer === 'own');
    // The cursor is one for all, so one stop for the Tab key is enough.
    panes.forEach((pane, i) => { pane.board.tabIndex = i === (state.pane ?? 0) ? 0 : -1; });
    words.show(state.layer === 'relevance');
    SPARE.emit('chosen', state.layer);
    soon();
    ahead();
  }
  $('.tools').addEventListener('change', ({target}) => {
    if (target.name === 'layer' || target.name === 'pane') choose(target.name);
  });
  // A menu closes on what is pressed elsewhere.
  document.addEventListener('pointerdown', ({target}) => {
    if (!$('.more').contains(target)) $('.more').open = false;
  });
  $('.more').addEventListener('toggle', () => {
    const inside = $('.more input:checked') ?? $('.more label:not([hidden]) input');
    if ($('.more').open && document.activeElement === $('.more summary')) inside.focus();
  });
  $('.more').addEventListener('focusout', ({relatedTarget}) => {
    if (relatedTarget && !$('.more').contains(relatedTarget)) $('.more').open = false;
  });
  $('.more').addEventListener('keydown', ({key}) => {
    if (key !== 'Escape' || !$('.more').open) return;
    $('.more').open = false;
    $('.more summary').focus();
  });

  function press(name, value) {
    const input = $(`input[name=${name}][value="${CSS.escape(value)}"]`);
    if (input) { input.checked = true; choose(name); }
  }
  panes.forEach((pane, i) => pane.title.addEventListener(
    'click', () => press('pane', state.pane === null ? String(i) : '')));
  SPARE.on('layer', (name) => press('layer', name));
  SPARE.on('repaint', soon);
  SPARE.on('remark', mark);
  SPARE.on('budget', (k) => { state.k = k; soon(); });
  // What the server says of the comparison that is shown.
  function take(reply) {
    if (reply.kind === 'words') words.add(reply);
    if (reply.kind === 'picks') state.data.add(reply.slot, reply.budget, reply.order, reply.sources);
    if (reply.kind === 'per-layer') state.data.addLayers(reply.slots);
    if (reply.kind === 'leftover') {
      state.data.leftovers.set(`${reply.slot} ${reply.budget}`, reply.values);
    }
  }
  SPARE.on('reply', (reply) => {
    if (reply.kind === 'per-layer') layers = reply;
    if (reply.of === state.data?.of) take(reply);
    soon();
  });
  SPARE.scrub(element);
  SPARE.depth(element);

  const linked = SPARE.link.read();
  if (linked) {
    const {layer, pane} = SPARE.link.view(linked);
    press('pane', pane);
    press('layer', layer);
    trigger('reopen', {query: linked});
  }

  let latest = null;
  SPARE.show = (sent) => show(latest = sent);  // for programs that bring their own comparison
  watch('value', read);
  choose();
  read();
};

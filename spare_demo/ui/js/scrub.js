// The budget slider, which is Gradio's own: what it says is drawn at once, and it can play.
'use strict';
SPARE.scrub = (element) => {
  const {state} = SPARE;
  const play = element.querySelector('.play');
  const slider = () => document.querySelector('#budget input[type=range]');
  let timer = 0;

  function set(k, done = false) {
    const input = slider();
    input.value = k;
    input.dispatchEvent(new Event('input', {bubbles: true}));
    if (done) input.dispatchEvent(new Event('pointerup', {bubbles: true}));
  }

  const most = () => Number(slider()?.max ?? state.data?.n ?? 1);

  function isBudget(text) {
    const k = Number(text);
    return String(text ?? '').trim() !== '' && Number.isInteger(k) && k >= 1 && k <= most();
  }

  function draw(k) {
    if (k !== state.k) SPARE.emit('budget', k);
  }

  function refuse(wrong) {
    const place = document.querySelector('#budget-message');
    if (wrong !== Boolean(place.querySelector(':scope > .message'))) {
      SPARE.tell(place, wrong && `Type a whole number from 1 to ${most()}.`);
    }
  }

  // What the slider, a button or the server set.
  function show(value) {
    if (typing) return;  // the box says it once it rests
    const good = isBudget(value), k = Number(value);
    refuse(!good || k === replaced);  // the sentence stays beside the number that took its place
    if (k !== replaced) replaced = null;
    if (good) draw(k);
  }

  // In the box a number comes digit by digit, and on the way to 577 nobody means 57: it is drawn
  // once the typing rests, and what is wrong goes back to the budget before it.
  const RESTS = 600;  // milliseconds
  let typing = 0, before = null, replaced = null;

  function type(text) {
    clearTimeout(typing);
    typing = 0;
    before ??= state.k;
    replaced = null;
    refuse(!isBudget(text));
    if (!isBudget(text)) return draw(before);
    typing = setTimeout(() => { typing = 0; draw(Number(text)); }, RESTS);
  }

  // The box is left: the nearest budget stands in it, or the one before where there is no number.
  function commit(box) {
    const text = box.value, number = Number(text);
    clearTimeout(typing);
    typing = 0;
    if (isBudget(text)) draw(number);
    else {
      const nearest = text !== '' && Number.isInteger(number);
      replaced = nearest ? Math.min(Math.max(number, 1), most()) : before ?? state.k;
      box.value = replaced;
      box.dispatchEvent(new Event('input', {bubbles: true}));
    }
    before = null;
  }

  // Slower while every pick still counts; in steps of a quarter where motion is unwelcome.
  function next(k) {
    if (SPARE.calm()) return Math.max(k + 1, Math.round(k * 1.5));
    return k < 96 ? k + 1 : k + Math.ceil(k / 64);
  }

  function run() {
    const k = Math.min(most(), next(state.k));
    set(k, k === most());
    if (k === most()) stop(); else timer = setTimeout(run, SPARE.calm() ? 900 : 70);
  }

  function stop() {
    clearTimeout(timer);
    timer = 0;
    play.textContent = '▶ Play';
    play.setAttribute('aria-pressed', 'false');
  }

  play.addEventListener('click', () => {
    if (timer) { stop(); set(state.k, true); return; }
    if (state.k >= most()) set(1);
    play.textContent = '❚❚ Pause';
    play.setAttribute('aria-pressed', 'true');
    timer = setTimeout(run, 0);
  });
  for (const [selector, step] of [['.back', -1], ['.forth', 1]]) {
    element.querySelector(selector).addEventListener('click', () => {
      const k = Math.min(most(), Math.max(1, state.k + step));
      set(k, true);
    });
  }

  // A mark is a good number, also where the slider stands on it and nothing moves.
  document.addEventListener('click', ({target}) => {
    if (!target.closest?.('#marks button')) return;
    replaced = null;
    refuse(false);
  });

  const isBox = (target) => target.matches?.('#budget input[type=number]');
  document.addEventListener('input', (event) => {
    if (!event.target.closest?.('#budget')) return;
    // An arrow of the box, or a program, means what it sets; keys and the clipboard have a kind,
    // and in Firefox the arrows another one.
    const typed = event.inputType && event.inputType !== 'insertReplacementText';
    if (isBox(event.target) && typed) type(event.target.value);
    else show(event.target.value);
  });
  // Before Gradio, which takes an empty box for 1.
  document.addEventListener('blur', ({target}) => { if (isBox(target)) commit(target); }, true);
  // Enter does what leaving the box does: the page asks at its number.
  document.addEventListener('keydown', ({key, target}) => {
    if (key !== 'Enter' || !isBox(target)) return;
    target.blur();
    target.focus();
  });
  // A key that let go counts as a pointer that let go; Gradio hears only the latter.
  document.addEventListener('keyup', (event) => {
    if (event.key === 'Tab' || !event.target.matches?.('#budget input[type=range]')) return;
    event.target.dispatchEvent(new Event('pointerup', {bubbles: true}));
  });
  // Marks on the slider's track: from how few tokens on each method's answer stays. The track may be
  // hidden when they come, and change its width afterwards.
  function mark(marks) {
    const input = slider();
    let row = input.parentElement.querySelector('.enough-marks');
    if (!row) {
      row = document.createElement('div');
      row.className = 'enough-marks';
      input.after(row);
      new ResizeObserver(() => lay(row, input)).observe(input);
    }
    row.innerHTML = Object.entries(marks).map(([name, k]) => {
      const share = (k - 1) / (most() - 1);
      return `<button type="button" class="${name.toLowerCase()}" data-k="${k}" ` +
        `style="left:calc(8px + ${share} * (100% - 16px))" ` +
        `aria-label="${name} ${k}: ${name} keeps the answer here and at every larger budget tried; go there">${name} ${k}</button>`;
    }).join('');
    row.onclick = ({target}) => { if (target.dataset.k) set(Number(target.dataset.k), true); };
  }

  function lay(row, input) {
    if (!row.offsetParent) return;  // hidden
    const box = input.getBoundingClientRect(), home = row.offsetParent.getBoundingClientRect();
    row.style.left = `${box.left - home.left}px`;
    row.style.width = `${box.width}px`;
    row.style.top = `${box.bottom - home.top}px`;
  }
  SPARE.on('reply', (reply) => { if (reply.kind === 'marks') mark(reply.marks); });
  SPARE.on('data', () => document.querySelector('.enough-marks')?.replaceChildren());
  SPARE.setBudget = set;
  SPARE.showBudget = show;
};

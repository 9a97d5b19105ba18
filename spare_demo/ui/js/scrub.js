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

  function show(value) {
    const k = Number(value), most = Number(slider()?.max ?? state.data?.n ?? 1);
    const good = String(value).trim() !== '' && Number.isInteger(k) && k >= 1 && k <= most;
    const place = document.querySelector('#budget-message .prose, #budget-message');
    place.innerHTML = good ? '' :
      `<p class="message" role="alert">Type a whole number from 1 to ${most}.</p>`;
    if (good && k !== state.k) SPARE.emit('budget', k);
  }

  // Slower while every pick still counts; in steps of a quarter where motion is unwelcome.
  function next(k) {
    if (SPARE.calm()) return Math.max(k + 1, Math.round(k * 1.5));
    return k < 96 ? k + 1 : k + Math.ceil(k / 64);
  }

  function run() {
    const most = Number(slider().max);
    const k = Math.min(most, next(state.k));
    set(k, k === most);
    if (k === most) stop(); else timer = setTimeout(run, SPARE.calm() ? 900 : 70);
  }

  function stop() {
    clearTimeout(timer);
    timer = 0;
    play.textContent = '▶ Play';
    play.setAttribute('aria-pressed', 'false');
  }

  play.addEventListener('click', () => {
    if (timer) { stop(); set(state.k, true); return; }
    if (state.k >= Number(slider().max)) set(1);
    play.textContent = '❚❚ Pause';
    play.setAttribute('aria-pressed', 'true');
    timer = setTimeout(run, 0);
  });
  for (const [selector, step] of [['.back', -1], ['.forth', 1]]) {
    element.querySelector(selector).addEventListener('click', () => {
      const k = Math.min(Number(slider().max), Math.max(1, state.k + step));
      set(k, true);
    });
  }

  document.addEventListener('input', (event) => {
    if (event.target.closest?.('#budget')) show(event.target.value);
  });
  // Enter does what leaving the box does: Gradio clamps the number, and the page asks at it.
  document.addEventListener('keydown', ({key, target}) => {
    if (key !== 'Enter' || !target.matches?.('#budget input[type=number]') || !target.value) return;
    target.blur();
    target.focus();
  });
  // A key that let go counts as a pointer that let go; Gradio hears only the latter.
  document.addEventListener('keyup', (event) => {
    if (event.key === 'Tab' || !event.target.matches?.('#budget input[type=range]')) return;
    event.target.dispatchEvent(new Event('pointerup', {bubbles: true}));
  });
  // Marks on the slider's track: from how few tokens on each method's answer stays.
  function mark(marks) {
    const input = slider(), most = Number(input.max);
    let row = input.parentElement.querySelector('.enough-marks');
    if (!row) {
      row = document.createElement('div');
      row.className = 'enough-marks';
      input.after(row);
    }
    const box = input.getBoundingClientRect(), home = row.offsetParent.getBoundingClientRect();
    row.style.left = `${box.left - home.left}px`;
    row.style.width = `${box.width}px`;
    row.style.top = `${box.bottom - home.top}px`;
    row.innerHTML = Object.entries(marks).map(([name, k]) => {
      const share = (k - 1) / (most - 1);
      return `<button type="button" class="${name.toLowerCase()}" data-k="${k}" ` +
        `style="left:calc(8px + ${share} * (100% - 16px))" ` +
        `aria-label="From ${k} tokens on ${name} keeps the answer: go there">${name} ${k}</button>`;
    }).join('');
    row.onclick = ({target}) => { if (target.dataset.k) set(Number(target.dataset.k), true); };
  }
  SPARE.on('reply', (reply) => { if (reply.kind === 'marks') mark(reply.marks); });
  SPARE.on('data', () => document.querySelector('.enough-marks')?.replaceChildren());
  SPARE.setBudget = set;
  SPARE.showBudget = show;
};

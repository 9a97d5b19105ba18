// The card that tells a story step by step. It stands in the page above the pictures, so it covers
// nothing that it is about.
'use strict';
SPARE.storyCard = (element, trigger) => {
  const {state} = SPARE;
  const $ = (selector) => element.querySelector(selector);
  const card = $('.story-card'), text = $('.text');
  const menu = document.querySelector('.stories'), buttons = [...menu.querySelectorAll('[data-story]')];
  let place = null;  // which story is told, as a number; null for none
  let step = 0, isSet = false, methodsChosen = false;
  const SETTLING = 3000;  // ms, in which a step may make the page above the card longer or shorter
  let settledAt = 0;

  const story = () => SPARE.stories[buttons[place].dataset.story];

  // What the visitor pinned stays.
  function unpin() {
    if (state.pinned === 'by a story') SPARE.emit('unlight');
  }

  function open(number) {
    unpin();
    [place, step, isSet, methodsChosen] = [number, 0, false, false];
    menu.open = false;
    card.hidden = false;
    update();
    $('h2').focus({preventScroll: true});
    SPARE.bring(card, 'start');
    settledAt = performance.now() + SETTLING;
  }

  // The controls stay as they are.
  function close() {
    unpin();
    place = null;
    card.hidden = true;
    menu.querySelector('summary').focus();
  }

  function go(by) {
    step += by;
    isSet = false;
    settledAt = performance.now() + SETTLING;
    update();
    if (document.activeElement === document.body) $('.next').focus();
  }

  function sentence(data) {
    const {suits, steps} = story();
    if (suits && !suits(data)) {
      if (!methodsChosen) trigger('choose_methods');
      methodsChosen = true;
      return 'Setting A and B to two methods that this story compares.';
    }
    if (!isSet) {
      isSet = true;  // before, since what is set may draw the pictures and come back here
      if (steps[step].set(data) === false) isSet = false;
    }
    return (isSet && steps[step].words(data)) || 'Waiting for the picks of this budget.';
  }

  function update() {
    const {data} = state;
    if (place === null || !data) return;
    const {steps, lacks} = story(), reason = lacks(data), last = reason || step === steps.length - 1;
    const next = buttons[(place + 1) % buttons.length].textContent;
    write($('h2'), buttons[place].textContent);
    write($('.place'), reason ? 'not here' : `step ${step + 1} of ${steps.length}`);
    write($('.next'), last ? `Next story: ${next}` : 'Next');
    $('.before').hidden = Boolean(reason) || step === 0;
    write(text, reason ?? sentence(data));
    // What a step sets changes the headline, so that the card may leave the screen.
    if (performance.now() < settledAt && card.getBoundingClientRect().top < 0) {
      card.scrollIntoView({block: 'start'});
    }
  }

  // Only what changed, for it is read aloud.
  function write(part, words) {
    if (part.textContent !== words) part.textContent = words;
  }

  const updateSoon = SPARE.throttle(update);
  for (const event of ['data', 'painted']) SPARE.on(event, updateSoon);
  for (const id of ['#answers', '#own-answer']) {
    SPARE.observe(document.querySelector(id), updateSoon);
  }

  $('.before').addEventListener('click', () => go(-1));
  $('.next').addEventListener('click', () => {
    if (story().lacks(state.data) || step === story().steps.length - 1) open((place + 1) % buttons.length);
    else go(1);
  });
  $('.close').addEventListener('click', close);
  card.addEventListener('keydown', ({key}) => { if (key === 'Escape') close(); });

  buttons.forEach((button, number) => button.addEventListener('click', () => open(number)));
  menu.addEventListener('keydown', ({key}) => {
    if (key !== 'Escape' || !menu.open) return;
    menu.open = false;
    menu.querySelector('summary').focus();
  });
  document.addEventListener('click', ({target}) => {
    if (!menu.contains(target) || target.matches('button')) menu.open = false;
  });
};

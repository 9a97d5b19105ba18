// The answers say for which budget, question and picture they are, as soon as the page shows others.
'use strict';
SPARE.compareBudget = (budget) => {
  const k = Math.min(budget, SPARE.state.data?.n ?? budget);  // a picture may have fewer tokens
  const rank = document.querySelector('.rank-note');
  if (rank) rank.hidden = k <= Number(rank.dataset.rank);
  const answers = document.querySelector('#answers .answers');
  const note = document.querySelector('#answers .stale-note');
  if (!answers || !note) return;
  const old = Number(answers.dataset.budget) !== k;
  answers.classList.toggle('stale', old);
  note.hidden = !old;
  const shown = note.querySelector('b');
  if (shown.textContent !== String(k)) shown.textContent = k;  // a change is looked at again
};
SPARE.on('budget', SPARE.throttle(SPARE.compareBudget));
SPARE.on('data', () => SPARE.compareBudget(SPARE.state.k));

// What is there dims while it is of another question or picture than the page shows.
SPARE.compareInputs = () => {
  const asked = document.querySelector('#answers .asked');
  const question = document.querySelector('#question textarea');
  if (!asked || !question) return;
  const text = question.value.replaceAll('\0', '\ufffd');  // as HTML has it
  const same = text.trim() === asked.dataset.question.trim()
    && SPARE.pictureName() === asked.dataset.picture;
  document.body.classList.toggle('asked-anew', !same);
};
document.addEventListener('input', ({target}) => {
  if (target.closest?.('#question')) SPARE.compareInputs();
});

// What was typed in a box is taken as the box is left, which can put Stop in the place of Ask. So a
// press of Ask leaves it only with the click.
document.addEventListener('mousedown', (event) => {
  if (event.target.closest?.('#ask')) event.preventDefault();
});
document.addEventListener('click', ({target}) => {
  const ask = target.closest?.('#ask');
  if (ask && document.activeElement !== ask) document.activeElement.blur();
}, true);

SPARE.answers = (element, trigger) => {
  const observer = new MutationObserver(() => {
    SPARE.compareInputs();
    SPARE.compareBudget(SPARE.state.k);
  });
  // Of cards that stay as they are, such as those of a question that was stopped, only these change.
  observer.observe(element, {
    childList: true, subtree: true,
    attributeFilter: ['data-question', 'data-picture', 'data-budget'],
  });
  // A picture is shown some time after the event that it changed. A saved page has none.
  const inputs = document.querySelector('#asked');
  if (inputs) {
    observer.observe(inputs, {childList: true, subtree: true, attributeFilter: ['src']});
  }
  element.addEventListener('click', (event) => {
    if (event.target.closest('.answer-now')) trigger('answer_now');
    if (event.target.closest('.load-tiny')) trigger('load_tiny');
    const reach = event.target.closest('.reach');
    if (reach) SPARE.setBudget(Number(reach.dataset.k), true);
  });
};

// Stop takes the place of Ask, and of Run in the Lab: the further clicks of a double click are not meant
// for it, and who presses either on the keyboard stays on the one that is there. A press begins a run
// even while another goes ("multiple" in wiring.py), so that what is no press of its own is kept back.
(() => {
  const DOUBLE = 500;  // milliseconds; where the browser counts no clicks, as those of fingers
  let begun = -Infinity, byKey = false, asked = null;
  const question = () => document.querySelector('#question textarea')?.value;
  document.addEventListener('click', (event) => {
    const begins = event.target.closest?.('#ask, #lab-run');
    const ends = event.target.closest?.('#stop, #lab-stop');
    if (event.target.closest?.('#examples, #chips, #scene')) asked = null;
    if (!begins && !ends) return;
    byKey = event.detail === 0;
    // upload.js presses Ask by itself, once a picture is here.
    const soon = event.isTrusted && event.timeStamp - begun < DOUBLE;
    // `detail` counts the clicks of one row, however slow the machine or the hand.
    if (soon || (ends && event.detail > 1)) event.stopImmediatePropagation();
    else if (begins) [begun, asked] = [event.timeStamp, question()];
  }, true);
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    const asks = event.target.closest?.('#question');
    if (!asks && !event.target.closest?.('#ask, #stop, #lab-run, #lab-stop')) return;
    const goes = document.querySelector('#stop') || event.timeStamp - begun < DOUBLE;
    if (event.repeat || (asks && goes && question() === asked)) {
      event.preventDefault();
      event.stopImmediatePropagation();
    } else if (asks) {
      [begun, asked] = [event.timeStamp, question()];
    }
  }, true);
  document.addEventListener('pointerdown', () => { byKey = false; }, true);
  new MutationObserver((changes) => {
    const row = changes.find(({target}) => target.matches?.('#actions, #lab-actions'))?.target;
    if (!row) return;
    // A search that has no end when Stop goes was stopped, whatever runs after it.
    if (row.id === 'actions' && !row.querySelector('#stop')) {
      document.querySelectorAll('.unfinished').forEach((words) => {
        words.classList.replace('unfinished', 'stopped');
      });
    }
    if (byKey && document.activeElement === document.body) {
      row.querySelector('#ask, #stop, #lab-run, #lab-stop')?.focus({preventScroll: true});
    }
  }).observe(document, {childList: true, subtree: true});  // the Lab is made as it is opened
})();

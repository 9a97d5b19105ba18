// The answers say for which budget, question and picture they are, as soon as the page shows others.
'use strict';
SPARE.compareBudget = (budget) => {
  const k = Math.min(budget, SPARE.state.data?.n ?? budget);  // a picture may have fewer tokens
  const rank = document.querySelector('.rank-note');
  if (rank) rank.hidden = k <= Number(rank.dataset.rank);
  const headline = document.querySelector('#headline .headline');
  headline?.classList.toggle('stale', Number(headline.dataset.budget) !== k);
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
  const compare = () => {
    SPARE.compareInputs();
    if (SPARE.state.data) SPARE.compareBudget(SPARE.state.k);  // no budget is shown before it is here
  };
  // Of cards that stay as they are, such as those of a question that was stopped, only these change.
  SPARE.observe(element, compare, ['data-question', 'data-picture', 'data-budget']);
  SPARE.observe(document.querySelector('#headline'), compare);
  // A picture is shown some time after the event that it changed. A saved page has none.
  const inputs = document.querySelector('#asked');
  if (inputs) SPARE.observe(inputs, compare, ['src']);
  element.addEventListener('click', (event) => {
    if (event.target.closest('.answer-now')) trigger('answer_now');
    if (event.target.closest('.load-tiny')) trigger('load_tiny');
    const reach = event.target.closest('.reach');
    if (reach) SPARE.setBudget(Number(reach.dataset.k), true);
  });
};

// The answers say for which budget they are as soon as the slider leaves it.
'use strict';
SPARE.on('budget', SPARE.throttle((k) => {
  const answers = document.querySelector('#answers .answers');
  const note = document.querySelector('#answers .stale-note');
  if (!answers || !note) return;
  const old = Number(answers.dataset.budget) !== k;
  answers.classList.toggle('stale', old);
  note.hidden = !old;
  note.querySelector('b').textContent = k;
}));

SPARE.answers = (element, trigger) => {
  element.addEventListener('click', (event) => {
    if (event.target.closest('.answer-now')) trigger('answer_now');
    if (event.target.closest('.load-tiny')) trigger('load_tiny');
    const reach = event.target.closest('.reach');
    if (reach) SPARE.setBudget(Number(reach.dataset.k), true);
  });
};

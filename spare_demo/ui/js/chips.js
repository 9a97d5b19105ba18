// Questions that the picture can answer: a click asks one. Beside another picture, which is asked about
// at once, they are hidden and keep their place, so that the buttons below stay under the pointer.
'use strict';
SPARE.chips = (element, trigger) => {
  element.addEventListener('click', ({target}) => {
    const chip = target.closest('.chip');
    if (chip) trigger('choose', {question: chip.textContent});
  });

  function compare() {
    const chips = element.querySelector('.question-chips');
    if (chips) chips.hidden = SPARE.pictureName() !== chips.dataset.picture;
  }
  // The picture itself may come after the questions, which stand in the same column.
  SPARE.observe(element.closest('#asked'), compare, ['src']);
  compare();
};

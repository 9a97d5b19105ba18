// A saved page: the viewer without a server. What it shows is all in the document.
'use strict';
(() => {
  SPARE.saved = true;
  const part = (name) => document.getElementById(name), nobody = () => {};

  // Only a model can answer from a set made by hand.
  document.querySelector('.layers input[value=own]').closest('label').remove();
  SPARE.why(part('reason'), nobody);
  SPARE.answers(part('answers'), nobody);
  SPARE.viewer(part('stage'), {}, nobody, nobody);

  const fields = document.querySelectorAll('#budget input');
  SPARE.on('budget', (k) => {
    for (const field of fields) if (Number(field.value) !== k) field.value = k;
  });
  // A browser that comes back to the page puts its numbers and choices back, without a word.
  SPARE.on('data', () => {
    SPARE.emit('budget', SPARE.state.k);
    for (const choice of document.querySelectorAll('.viewer .tools input:checked')) {
      choice.dispatchEvent(new Event('change', {bubbles: true}));
    }
  });

  SPARE.show(SPARE.unbundle(SPARE.decode(part('comparison').textContent)));
})();

// Makes the radio buttons of one setting one group with a name. Gradio makes each a group of its own, so
// that the arrow keys do nothing and a screen reader says "16" without saying of what.
'use strict';
(() => {
  const group = (choices) => {
    choices.ariaLabel = choices.querySelector('[data-testid=block-info]')?.textContent.trim() ?? '';
    const radios = choices.querySelectorAll('[type=radio]');
    for (const radio of radios) radio.name = radios[0].name;
  };
  SPARE.observe(document, () => document.querySelectorAll('fieldset').forEach(group));
})();

// Choices of which one is taken are one group, with a name: in Gradio's page the arrow keys go nowhere,
// and a screen reader says of each "16", and not of what.
'use strict';
(() => {
  const group = (choices) => {
    choices.ariaLabel = choices.querySelector('[data-testid=block-info]')?.textContent.trim() ?? '';
    const radios = choices.querySelectorAll('[type=radio]');
    for (const radio of radios) radio.name = radios[0].name;
  };
  new MutationObserver(() => document.querySelectorAll('fieldset').forEach(group))
    .observe(document, {childList: true, subtree: true});
})();

// Methods that cannot run on this model stand in the menus with the reason, and cannot be chosen:
// Gradio's menu knows no such entries.
'use strict';
(() => {
  const NOT_HERE = ' – not on this model: ';  // as ui/tuning.py has it
  const off = (option) => option?.getAttribute('aria-disabled') === 'true';

  function disable() {  // an entry's element may be another's as soon as the list is filtered
    for (const option of document.querySelectorAll('[role=option]')) {
      const wanted = option.getAttribute('aria-label')?.includes(NOT_HERE) ?? false;
      if (wanted !== off(option)) option.setAttribute('aria-disabled', String(wanted));
    }
  }
  new MutationObserver(disable).observe(document, {childList: true, subtree: true,
    attributeFilter: ['aria-label']});

  const refuse = (event) => {
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  for (const kind of ['pointerdown', 'mousedown', 'click']) {
    document.addEventListener(kind, (event) => {
      if (off(event.target.closest?.('[role=option]'))) refuse(event);
    }, true);
  }
  document.addEventListener('keydown', (event) => {
    const active = event.target.getAttribute?.('aria-activedescendant');
    if (event.key === 'Enter' && active && off(document.getElementById(active))) refuse(event);
  }, true);
})();

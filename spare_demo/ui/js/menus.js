// The headings of a menu's groups, and methods that cannot run on this model with the reason, cannot
// be chosen: Gradio's menu knows no such entries.
'use strict';
(() => {
  const NOT_HERE = ' – not on this model: ', HEADING = '— ';  // as ui/tuning.py has them
  const off = (option) => option?.getAttribute('aria-disabled') === 'true';

  function disable() {  // an entry's element may be another's as soon as the list is filtered
    for (const option of document.querySelectorAll('[role=option]')) {
      const label = option.getAttribute('aria-label') ?? '';
      const wanted = label.startsWith(HEADING) || label.includes(NOT_HERE);
      if (wanted !== off(option)) option.setAttribute('aria-disabled', String(wanted));
    }
  }
  // An open list scrolls, which makes it a stop of the Tab key of its own; it closes as it gets there,
  // and the focus would be nowhere.
  function passOver() {
    for (const list of document.querySelectorAll('[role=listbox]:not([tabindex])')) list.tabIndex = -1;
  }
  // What the cross of a chosen entry says: Gradio gives it the entry's number.
  function nameCrosses() {
    for (const cross of document.querySelectorAll('.token > [role=button]')) {
      const words = `Remove ${cross.previousElementSibling.textContent.trim()}`;
      if (cross.title !== words) cross.title = words;
    }
  }
  SPARE.observe(document, () => { disable(); passOver(); nameCrosses(); }, ['aria-label']);

  const refuse = (event) => {
    event.preventDefault();
    event.stopImmediatePropagation();
  };
  for (const kind of ['pointerdown', 'mousedown', 'click']) {
    document.addEventListener(kind, (event) => {
      if (off(event.target.closest?.('[role=option]'))) refuse(event);
    }, true);
  }
  let looked = null;  // the Enter that may choose
  document.addEventListener('keydown', (event) => {
    // Gradio takes a key up in a later task, so what Enter chooses hangs on the keys before it.
    if (event.key === 'Enter' && event !== looked && event.target.matches?.('[role=combobox]')) {
      refuse(event);
      setTimeout(() => {
        if (off(document.getElementById(event.target.getAttribute('aria-activedescendant')))) return;
        looked = new KeyboardEvent('keydown', {key: 'Enter', bubbles: true});
        event.target.dispatchEvent(looked);
      });
    }
    // Gradio opens a menu's list at any key but Escape, and at this one after the menu was left.
    if (event.key === 'Tab' && event.target.matches?.('[role=combobox]')) event.stopPropagation();
  }, true);
  // Gradio opens a menu's list as the menu gets the focus, which it still has after Escape.
  document.addEventListener('click', ({target}) => {
    if (target !== document.activeElement || !target.matches('[role=combobox]')) return;
    if (target.getAttribute('aria-expanded') !== 'false') return;
    target.blur();
    target.focus();
  });
  // A menu in which something was chosen lets go of the focus, and Firefox goes on with the Tab key where
  // the selection is, at first at the top of the page.
  document.addEventListener('focusout', ({target, relatedTarget}) => {
    if (relatedTarget || !target.matches?.('[role=combobox]')) return;
    getSelection().collapse(target.parentElement.lastElementChild);
  });
  // Gradio's page on the API is a dialog that Escape does not close.
  document.addEventListener('keydown', ({key}) => {
    if (key === 'Escape') document.querySelector('.api-docs .backdrop')?.click();
  });
})();

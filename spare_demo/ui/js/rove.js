// Rows of buttons that are one stop for the Tab key; the arrow keys go from button to button.
'use strict';
SPARE.rove = (row) => {
  const buttons = () => [...row.querySelectorAll('button')].filter(
    (button) => !button.disabled && button.getClientRects().length);

  function stopAt(chosen) {
    for (const button of row.querySelectorAll('button')) {
      button.tabIndex = button === chosen ? 0 : -1;
    }
  }

  row.addEventListener('keydown', (event) => {
    const step = {ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1}[event.key];
    const all = buttons(), at = all.indexOf(event.target);
    if (!step || at < 0) return;
    event.preventDefault();
    const next = all[(at + step + all.length) % all.length];
    stopAt(next);
    next.focus();
  });
  row.addEventListener('focusin', ({target}) => {
    if (buttons().includes(target)) stopAt(target);
  });
  const start = () => { if (!buttons().some((button) => button.tabIndex === 0)) stopAt(buttons()[0]); };
  // Gradio makes its buttons anew when it shows others.
  SPARE.observe(row, start);
  stopAt(buttons()[0]);
};
// Once the page stands. The thumbnails come without a name for those who do not see them.
SPARE.openPage = (questions) => {
  document.querySelectorAll('#examples button').forEach((button, i) => {
    button.setAttribute('aria-label', `Example: ${questions[i]}`);
    button.title = questions[i];
  });
  for (const row of document.querySelectorAll('#picture .source-selection, #examples .gallery, #marks, #chips, .scrubber, #further')) {
    SPARE.rove(row);
  }
  // Else a screen reader says numbers, and not of what.
  Object.assign(document.querySelector('#marks'), {role: 'group', ariaLabel: 'Tokens kept'});
};

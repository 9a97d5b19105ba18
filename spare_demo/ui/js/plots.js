// What each plot shows, for those who do not see it: the sentence below it.
'use strict';
SPARE.observe(document, () => {
  for (const plot of document.querySelectorAll('.js-plotly-plot:not([role])')) {
    const words = document.getElementById(`${plot.closest('[id$=curve], #kl').id}-words`);
    plot.setAttribute('role', 'img');
    plot.setAttribute('aria-labelledby', words.id);
  }
});

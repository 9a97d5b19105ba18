// Whether a part of the page is folded away, for those who do not see it: Gradio's titles do not say.
'use strict';
(() => {
  const say = (title) => {
    const open = String(title.classList.contains('open'));
    if (title.getAttribute('aria-expanded') !== open) title.setAttribute('aria-expanded', open);
  };
  const sayAll = () => document.querySelectorAll('button.label-wrap').forEach(say);
  SPARE.observe(document, sayAll, ['class']);

  // The part about merged tokens, where there are any (style.css).
  SPARE.on('data', ({slots}) => document.body.classList.toggle(
    'merging', Object.values(slots).some(({merges}) => merges)));
})();

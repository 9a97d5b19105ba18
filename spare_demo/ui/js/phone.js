// What a narrow page does by itself: the sheet on a patch, and the answers after Ask.
'use strict';
(() => {
  const narrow = matchMedia('(max-width: 720px)');
  const show = (shown) => document.querySelector('.why')?.classList.toggle('open', shown);

  SPARE.on('look', () => { if (narrow.matches && SPARE.state.layer !== 'own') show(true); });
  SPARE.on('unlit', () => show(false));
  SPARE.on('chosen', () => show(false));
  document.addEventListener('click', ({target}) => {
    if (target.closest?.('.sheet-close')) SPARE.emit('unlight');
  });

  function toAnswers() {
    if (!narrow.matches) return;
    document.querySelector('#answers').scrollIntoView(
      {block: 'start', behavior: SPARE.calm() ? 'auto' : 'smooth'});
  }
  document.addEventListener('click', ({target}) => { if (target.closest?.('#ask')) toAnswers(); });
  document.addEventListener('keydown', ({key, target, shiftKey}) => {
    if (key === 'Enter' && !shiftKey && target.closest?.('#question')) toAnswers();
  });
})();

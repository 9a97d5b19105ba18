// What a page does by itself: a narrow one shows the answers after Ask, a touched one the sheet on a
// patch.
'use strict';
(() => {
  const narrow = matchMedia('(max-width: 720px)');
  const touched = matchMedia('(max-width: 720px), (hover: none)');
  const show = (shown) => document.querySelector('.why')?.classList.toggle('open', shown);

  // y: of the patch in the window, in the upper half of which it stays in sight.
  SPARE.on('look', (y) => {
    if (!touched.matches || SPARE.state.layer === 'own') return;
    show(true);
    if (y > innerHeight / 2) scrollBy({top: y - innerHeight / 3, behavior: 'instant'});
  });
  SPARE.on('unlit', () => show(false));
  // Of the three pictures, the one that the layer is about.
  SPARE.on('chosen', (layer) => {
    show(false);
    const panes = document.querySelector('.panes'), at = SPARE.layers.trios[layer].indexOf(layer);
    if (narrow.matches && SPARE.state.data) {
      panes.scrollLeft = panes.children[at].offsetLeft - panes.children[0].offsetLeft;
    }
  });
  document.addEventListener('click', ({target}) => {
    if (!target.closest?.('.sheet-close')) return;
    SPARE.emit('unlight');
    document.querySelector('.board[tabindex="0"]').focus({preventScroll: true});
  });

  function toAnswers() {
    if (narrow.matches) SPARE.bring(document.querySelector('#answers'), 'start');
  }
  document.addEventListener('click', ({target}) => {
    if (target.closest?.('#ask, .chip')) toAnswers();
  });
  document.addEventListener('keydown', ({key, target, shiftKey}) => {
    if (key === 'Enter' && !shiftKey && target.closest?.('#question')) toAnswers();
  });
})();

// A first visit: five stops, once, and only if wanted.
'use strict';
SPARE.tour = (() => {
  const KEY = 'spare-tour';
  const stops = [
    ['#asked', 'A picture and a question',
     'Take an example or bring a picture of your own. Ask runs the model.'],
    ['#stage', 'What was kept',
     'Each square is one visual token. Blue outline: only A kept it; vermilion with a hatched ' +
     'corner: only B; white: both; dark: neither. The row above shows other layers.'],
    ['#budget', 'The budget',
     'How many tokens are kept. Drag it or press Play: the picks are drawn in the order they were made.'],
    ['#answers', 'Three answers',
     'From all tokens, from those A kept and from those B kept, with the first word that differs marked.'],
    ['#reason', 'Why this patch',
     'Point at a patch, or use the arrow keys on the picture: why each method kept or lost it. ' +
     '“Change by hand”, below the budget, makes a set of your own to ask again with.'],
  ];

  function seen() {
    try { return localStorage.getItem(KEY) === 'done'; } catch { return false; }
  }

  function finish(card) {
    try { localStorage.setItem(KEY, 'done'); } catch { /* a browser that keeps nothing */ }
    card.remove();
    document.querySelector('.tour-target')?.classList.remove('tour-target');
  }

  function start() {
    document.querySelector('.tour')?.remove();
    const card = document.createElement('section');
    card.className = 'tour';
    card.setAttribute('role', 'dialog');
    card.setAttribute('aria-label', 'A short tour');
    document.body.append(card);
    let at = 0;

    function show() {
      const [place, title, words] = stops[at], target = document.querySelector(place);
      document.querySelector('.tour-target')?.classList.remove('tour-target');
      target?.classList.add('tour-target');
      const top = target?.getBoundingClientRect().top;
      // What begins in view stays where it is: a first visit opens on the top of the page.
      if (top < 0 || top > innerHeight / 2) {
        target.scrollIntoView({block: 'center', behavior: SPARE.calm() ? 'auto' : 'smooth'});
      }
      card.innerHTML = `<p class="stop">${at + 1} of ${stops.length}</p><h2>${title}</h2>` +
        `<p aria-live="polite">${words}</p><div class="row">` +
        `<button type="button" class="skip">${at + 1 < stops.length ? 'Skip the tour' : 'Close'}</button>` +
        (at ? '<button type="button" class="before">Back</button>' : '') +
        (at + 1 < stops.length ? '<button type="button" class="next">Next</button>' : '') + '</div>';
      (card.querySelector('.next') ?? card.querySelector('.skip')).focus({preventScroll: true});
    }

    card.addEventListener('click', (event) => {
      if (event.target.matches('.skip')) finish(card);
      if (event.target.matches('.next, .before')) {
        at += event.target.matches('.next') ? 1 : -1;
        show();
      }
    });
    card.addEventListener('keydown', (event) => { if (event.key === 'Escape') finish(card); });
    show();
  }

  return {start, begin: () => { if (!seen()) start(); }};
})();

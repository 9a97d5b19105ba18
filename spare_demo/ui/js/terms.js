// What a word means, beside the word: under the pointer, or when it is tapped. The list of terms has
// the same words for whoever uses neither.
'use strict';
(() => {
  const TERMS = {};  // ui/viewer.py puts them here
  const tip = document.createElement('div');
  tip.id = 'term-tip';
  tip.setAttribute('role', 'tooltip');
  tip.hidden = true;

  let shown = null;  // the word that is explained

  function show(term) {
    if (!tip.isConnected) document.querySelector('.gradio-container').append(tip);
    tip.textContent = TERMS[term.dataset.term];
    tip.hidden = false;
    shown = term;
    place();
  }

  function place() {
    if (!shown) return;
    const word = shown.getBoundingClientRect(), box = tip.getBoundingClientRect();
    const left = Math.max(8, Math.min(word.left, innerWidth - box.width - 8));
    const below = word.bottom + box.height < innerHeight;
    Object.assign(tip.style, {left: `${left}px`,
                              top: `${below ? word.bottom : word.top - box.height}px`});
  }

  function hide() {
    tip.hidden = true;
    shown = null;
  }

  // A tap also moves the pointer onto the word and off again, so taps are left to `click`.
  document.addEventListener('pointerover', ({target, pointerType}) => {
    if (pointerType !== 'mouse') return;
    const term = target.closest('[data-term]');
    if (term) show(term); else if (!tip.contains(target)) hide();
  });
  document.addEventListener('click', ({target}) => {
    const term = target.closest('.term[data-term]');
    if (term) show(term); else if (!tip.contains(target)) hide();
  });
  // Choices of the viewer have their explanation on the keyboard too.
  document.addEventListener('focusin', ({target}) => {
    const term = target.matches(':focus-visible') && target.closest('label[data-term]');
    if (term) show(term);
  });
  document.addEventListener('focusout', hide);
  document.addEventListener('keydown', ({key}) => { if (key === 'Escape') hide(); });
  addEventListener('scroll', place, {capture: true, passive: true});

  // Marks the first place of a word below an element, which keeps its text.
  function mark(element, word) {
    if (!element || element.querySelector('.term')) return;
    const texts = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
    for (let text = texts.nextNode(); text; text = texts.nextNode()) {
      const at = text.data.indexOf(word);
      if (at < 0) continue;
      const term = document.createElement('span');
      Object.assign(term, {className: 'term', textContent: word});
      term.dataset.term = word;
      text.splitText(at).splitText(word.length);
      text.nextSibling.replaceWith(term);
      return;
    }
  }

  SPARE.on('painted', () => {
    const label = document.querySelector('#budget [data-testid=block-info]');
    if (label) {
      label.classList.add('term');
      label.dataset.term = 'budget';
    }
  });
  // The caption is written some time after the pictures are painted.
  const written = new MutationObserver(([{target}]) => mark(target, 'Jaccard'));
  SPARE.on('data', () => {
    const caption = document.querySelector('#stage .caption');
    mark(caption, 'Jaccard');
    written.observe(caption, {childList: true});
  });

  document.addEventListener('click', ({target}) => {
    if (target.closest?.('.open-terms')) SPARE.unfold('terms');
  });
})();

// Guess first: the answers of A and B stay hidden until the visitor says whether they survive.
'use strict';
SPARE.guess = (() => {
  const guesses = new Map();  // round -> {a, b}: whether it survives; as long as the page is open
  let right = 0, total = 0, toggle = null, focus = null;

  const answers = () => document.querySelector('#answers .answers');
  const cardOf = (slot) => answers()?.querySelector(`.card.${slot}`);
  const wordsOf = (card) => (
    card?.querySelector('.answer-text')?.textContent.split(/\s+/).join(' ').trim());
  const isFinished = (card) => Boolean(card?.querySelector('.verdict'));
  // A schedule that cannot meet the budget gives no answer to guess.
  const hasAnswer = (card) => Boolean(card?.querySelector('.answer-text'));

  // What makes it another comparison: picture, question, budget and methods.
  function round() {
    const {question, picture} = document.querySelector('#answers .asked')?.dataset ?? {};
    const heads = [...answers()?.querySelectorAll('.card h3') ?? []].map((h3) => h3.textContent);
    return JSON.stringify([question, picture, answers()?.dataset.budget, heads]);
  }

  function addQuestion(slot, card) {
    const name = card.querySelector('h3').textContent.split(' · ')[0].replace(/^[AB] /, '');
    const box = document.createElement('div');
    box.className = 'guess';
    box.setAttribute('role', 'group');
    box.setAttribute('aria-label', `Guess, ${slot.toUpperCase()}`);
    box.innerHTML = `<p>Will ${SPARE.escape(name)}’s answer survive?</p>`
      + `<button type="button" data-slot="${slot}" data-guess="yes">Yes</button>`
      + `<button type="button" data-slot="${slot}" data-guess="no">No</button>`;
    card.append(box);
    // The answers are written anew word by word; a button that had the focus gets it again.
    if (focus?.slot === slot && document.activeElement === document.body) box.querySelector(`[data-guess=${focus.guess}]`).focus();
  }

  // Runs after every change of the answers, before the browser shows it.
  function update() {
    if (!toggle?.checked || !answers()) return;
    const made = guesses.get(round()) ?? {};
    let open = 0;
    for (const slot of ['a', 'b']) {
      const card = cardOf(slot);
      if (!card) continue;
      const shown = slot in made || made.seen || !hasAnswer(card);
      card.classList.toggle('guessed', shown);
      const question = card.querySelector('.guess');
      if (shown) question?.remove();
      else if (!question) addQuestion(slot, card);
      if (slot in made && isFinished(card) && !card.querySelector('.guess-result')) {
        count(made, slot, card);
      }
      open += !shown;
    }
    document.body.classList.toggle('guesses-made', !open);
  }

  function count(made, slot, card) {
    const isRight = made[slot] === (wordsOf(card) === wordsOf(cardOf('all')));
    const line = document.createElement('p');
    line.className = 'guess-result';
    line.textContent = `You were ${isRight ? 'right' : 'wrong'}.`;
    card.append(line);
    if (made[`${slot} counted`]) return;
    made[`${slot} counted`] = true;
    total += 1;
    right += isRight;
    document.querySelector('#guess-score').textContent = `${right} of ${total} right`;
  }

  function start(place) {
    toggle = place.querySelector('input');
    const observer = new MutationObserver(watched);
    const watch = () => observer.observe(
      document.querySelector('#answers'), {childList: true, subtree: true, characterData: true});
    function watched() {  // its own changes are none of the server's
      observer.disconnect();
      update();
      watch();
    }
    watch();
    toggle.addEventListener('change', () => {
      document.body.classList.toggle('guess-first', toggle.checked);
      // What the visitor has seen already is not to be guessed.
      if (toggle.checked) guesses.set(round(), {...guesses.get(round()), seen: true});
      else document.querySelectorAll('.guess, .guess-result').forEach((part) => part.remove());
      watched();
    });
    document.querySelector('#answers').addEventListener('click', ({target}) => {
      const {slot, guess} = target.dataset;
      if (!guess) return;
      guesses.set(round(), {...guesses.get(round()), [slot]: guess === 'yes'});
      watched();
      // Where the keyboard was is gone: on to the other guess, or to the answer.
      const next = answers().querySelector('.guess button') ?? cardOf(slot);
      if (next === cardOf(slot)) next.tabIndex = -1;
      next.focus();
    });
    document.addEventListener('focusin', ({target}) => {
      focus = target.closest?.('.guess button')?.dataset ?? null;
    });
  }

  return {start};
})();

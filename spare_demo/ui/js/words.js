// Relevance word by word: a row of choices above the relevance layer, all maps on one scale.
'use strict';
SPARE.words = (row, trigger) => {
  const {state, escape} = SPARE;

  function draw() {
    const words = state.data?.words;
    const names = words ? ['whole question', ...words.names] : [];
    const focused = row.contains(document.activeElement);  // on the button that goes
    row.innerHTML = words
      ? names.map((name, i) => `<label><input type="radio" name="word" value="${i - 1}"` +
          `${i - 1 === words.chosen ? ' checked' : ''}><span>${escape(name)}</span></label>`).join('')
      : '<button type="button">Word by word</button>';
    if (focused) row.querySelector('input:checked, button').focus({preventScroll: true});
  }

  row.addEventListener('click', (event) => {
    if (event.target.matches('button')) {
      event.target.textContent = 'Asking the server …';
      SPARE.ask(trigger, 'words', {});
    }
  });
  row.addEventListener('change', (event) => {
    state.data.words.chosen = Number(event.target.value);
    SPARE.emit('repaint');
  });
  SPARE.on('data', draw);
  SPARE.on('unanswered', (kind) => { if (kind === 'words') draw(); });

  return {
    show: (wanted) => { row.hidden = !wanted || SPARE.saved || (state.data && !state.data.relevance); },
    add(reply) {
      const {words: names, values} = reply, {least, most} = SPARE.ends(values);
      state.data.words = {names, values, range: [least, most], chosen: 0};
      draw();
    },
  };
};

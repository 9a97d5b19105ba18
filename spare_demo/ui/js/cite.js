// One file to cite a comparison by, made at the server and handed over here.
'use strict';
SPARE.cite = (element, trigger) => {
  const button = element.querySelector('.zip'), message = element.querySelector('.message-place');
  const label = button.textContent;

  button.addEventListener('click', () => {
    const panels = [...element.querySelectorAll('.ticks input:checked')].map((box) => box.value);
    message.innerHTML = panels.length ? ''
      : '<p class="message" role="alert">Choose at least one picture for the zip.</p>';
    if (!panels.length) return;
    button.textContent = 'Making it …';
    button.disabled = true;
    trigger('cite', {panels, link: SPARE.link.make()});
  });

  function ready() {
    button.textContent = label;
    button.disabled = false;
  }

  SPARE.on('reply', (reply) => {
    if (reply.kind === 'zip' || reply.kind === 'refused') ready();
    if (reply.kind === 'refused') {
      message.innerHTML = `<p class="message" role="alert">${SPARE.escape(reply.sentence)}</p>`;
    }
    if (reply.kind !== 'zip') return;
    const bytes = Uint8Array.from(atob(reply.data), (letter) => letter.charCodeAt(0));
    SPARE.save(new Blob([bytes], {type: 'application/zip'}), 'spare-comparison.zip');
  });
  element.querySelector('.copy-link').addEventListener(
    'click', (event) => SPARE.link.copy(event.target));
};

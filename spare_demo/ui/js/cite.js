// Files of a comparison, made at the server and handed over here: one to cite it by, one to look at.
'use strict';
SPARE.cite = (element, trigger) => {
  const zip = element.querySelector('.zip'), page = element.querySelector('.page');
  const message = element.querySelector('.message-place');
  let pressed = null, label = '';

  function ask(button, kind, what) {
    [pressed, label] = [button, button.textContent];
    message.innerHTML = '';
    button.textContent = 'Making it …';
    zip.disabled = page.disabled = true;
    trigger(kind, what);
  }

  zip.addEventListener('click', () => {
    const panels = [...element.querySelectorAll('.ticks input:checked')].map((box) => box.value);
    if (panels.length) ask(zip, 'cite', {panels, link: SPARE.link.make()});
    else refuse('Choose at least one picture for the zip.');
  });
  page.addEventListener('click', () => ask(page, 'save_page', {}));

  function refuse(sentence) {
    message.innerHTML = `<p class="message" role="alert">${SPARE.escape(sentence)}</p>`;
  }

  SPARE.on('reply', (reply) => {
    if (!pressed || (reply.kind !== 'file' && reply.kind !== 'refused')) return;
    pressed.textContent = label;
    zip.disabled = page.disabled = false;
    pressed = null;
    if (reply.kind === 'refused') return refuse(reply.sentence);
    const bytes = Uint8Array.from(atob(reply.data), (letter) => letter.charCodeAt(0));
    SPARE.save(new Blob([bytes], {type: reply.type}), reply.name);
  });
  element.querySelector('.copy-link').addEventListener(
    'click', (event) => SPARE.link.copy(event.target));
};

// Files of a comparison, made at the server and handed over here: to cite it by, to look at, to show.
'use strict';
SPARE.cite = (element, trigger) => {
  const $ = (selector) => element.querySelector(selector);
  const zip = $('.zip'), page = $('.page'), film = $('.film');
  let pressed = null, label = '';

  function ask(button, kind, what) {
    [pressed, label] = [button, button.textContent];
    refuse('');
    button.textContent = 'Making it …';
    zip.disabled = page.disabled = film.disabled = true;
    trigger(kind, what);
  }

  zip.addEventListener('click', () => {
    const panels = [...element.querySelectorAll('.ticks input:checked')].map((box) => box.value);
    if (panels.length) ask(zip, 'cite', {panels, link: SPARE.link.make()});
    else refuse('Choose at least one picture for the zip.');
  });
  page.addEventListener('click', () => ask(page, 'save_page', {}));

  film.addEventListener('click', () => ask(film, 'film', {}));

  function end() {
    if (!pressed) return;
    pressed.textContent = label;
    zip.disabled = page.disabled = film.disabled = false;
    // A button that is disabled loses the focus.
    if (document.activeElement === document.body) pressed.focus({preventScroll: true});
    pressed = null;
  }

  const refuse = (sentence) => SPARE.tell($('.message-place'), sentence);

  SPARE.on('reply', async (reply) => {
    if (!pressed) return;
    if (reply.kind === 'film') film.textContent = `Making it: ${reply.done} of ${reply.of} …`;
    if (reply.kind !== 'file' && reply.kind !== 'refused') return;
    const button = pressed;
    if (reply.kind === 'refused') refuse(reply.sentence);
    else {
      try {
        const bytes = await (await SPARE.fetchFile(reply.path)).arrayBuffer();
        SPARE.save(new Blob([bytes], {type: reply.type}), reply.name);
      } catch {
        refuse('The file did not arrive. Press the button again.');
      }
    }
    if (pressed === button) end();  // else a film's end came first
  });
  // A film can be stopped, or turned away before its turn.
  SPARE.on('film-over', end);
  $('.copy-link').addEventListener('click', (event) => SPARE.link.copy(event.target));
  $('.copy-bibtex').addEventListener('click', async ({target}) => {
    const {bibtex} = SPARE.state.data, copied = await SPARE.copy(bibtex);
    if (!copied) SPARE.save(new Blob([bibtex], {type: 'text/plain'}), 'references.bib');
    target.nextElementSibling.textContent = copied ? 'Copied.' : 'Saved as references.bib.';
  });
};

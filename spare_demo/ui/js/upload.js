// A new picture stands on the stage at once, until its comparison comes. A file that is too large is
// refused before it is sent, and one that does not arrive is asked for again. Who presses Ask while one
// is on its way is answered once it is here.
'use strict';
(() => {
  const WORDS = 'Press Ask to see which tokens are kept.';
  let cover = null;  // what lies on the stage
  let of = '', drawn = false;  // which picture was asked about below it, and whether one was since

  const asked = () => document.querySelector('#answers .asked')?.dataset.picture;

  function remove() {
    cover?.remove();
    cover = null;
  }

  function show(source) {
    const board = document.querySelector('#stage .viewer .board');
    if (!board || cover?.querySelector('img').src === source) return;
    remove();
    [of, drawn] = [asked(), false];
    cover = document.createElement('div');
    cover.className = 'new-picture';
    const image = new Image(), words = document.createElement('p');
    // A kind that browsers cannot draw, or a broken file, of which the words beside it speak.
    image.addEventListener('error', remove);
    image.alt = 'The new picture';
    image.src = source;
    words.textContent = WORDS;
    cover.append(image, words);
    board.append(cover);
  }

  let arriving = 0, waits = false;  // pictures on their way; whether Ask was pressed meanwhile

  function update() {
    const source = SPARE.picture();
    if (source && waits && !arriving) {
      waits = false;
      document.querySelector('#ask')?.click();
    }
    if (!source || asked() === undefined) return remove();
    if (SPARE.pictureName() !== asked()) show(source);
    // Its comparison is there and not only on the way; or the picture of the one below came back.
    else if (drawn || asked() === of) remove();
  }

  // A comparison may come before the last parts of the page.
  const observer = new MutationObserver(update);
  SPARE.on('data', () => {
    drawn = true;
    update();
    tell('');
    for (const part of document.querySelectorAll('#picture, #answers')) {
      observer.observe(part, {childList: true, subtree: true, attributeFilter: ['src']});
    }
  });

  // A kind such as TIFF, which the model is given all the same: else the box shows a broken picture.
  document.addEventListener('error', ({target}) => {
    if (!target.matches?.('#picture .image-frame img')) return;
    target.alt = 'No preview: this browser cannot draw the file.';
  }, true);

  // The button that took the picture away, or brought it, goes with it: the focus stays in the box.
  let within = false;
  document.addEventListener('focusin', ({target}) => { within = Boolean(target.closest('#picture')); });
  document.addEventListener('pointerdown', () => { within = false; }, true);
  SPARE.observe(document, () => {
    if (!within || document.activeElement !== document.body) return;
    [...document.querySelectorAll('#picture button')].find((button) => button.checkVisibility()
      && button.tabIndex >= 0)?.focus({preventScroll: true});
  }, ['class']);

  const tell = (sentence) => SPARE.tell(document.querySelector('#message'), sentence);

  // Gradio would say so in a corner of the page and for a moment only.
  function refuse(event, files) {
    const most = window.gradio_config?.max_file_size;
    tell('');
    if (!most || ![...files ?? []].some(({size}) => size > most)) return;
    event.stopImmediatePropagation();
    event.preventDefault();
    tell(`This file is larger than ${most / 1e6} MB. Choose a smaller picture.`);
    if (event.type === 'change') event.target.value = '';
  }
  document.addEventListener('change', (event) => {
    if (event.target.matches?.('#picture input[type=file]')) refuse(event, event.target.files);
  }, true);
  document.addEventListener('drop', (event) => {
    if (event.target.closest?.('#picture')) refuse(event, event.dataTransfer?.files);
  }, true);

  // That a picture did not arrive, Gradio says for a few seconds only.
  const ask = window.fetch;
  window.fetch = (address, ...more) => {
    const answer = ask(address, ...more);
    if (String(address).includes('/upload?')) {
      SPARE.expectPicture(answer.then(({ok}) => ok, () => false)).then((arrived) => {
        tell(arrived ? '' : 'The picture did not arrive. Choose it again.');
      });
    }
    return answer;
  };

  // coming: a promise whether the picture has arrived, which is given back.
  SPARE.expectPicture = (coming) => {
    arriving++;
    return coming.then((arrived) => {
      arriving--;
      waits &&= arrived;
      return arrived;
    });
  };

  function wait(event) {
    if (!arriving) return;
    event.stopImmediatePropagation();
    event.preventDefault();
    waits = true;
    tell('The picture is on its way. The answer begins once it is here.');
  }
  document.addEventListener('click', (event) => {
    if (event.target.closest?.('#ask')) wait(event);
  }, true);
  document.addEventListener('keydown', (event) => {
    const {key, shiftKey, target} = event;
    if (key === 'Enter' && !shiftKey && target.closest?.('#question')) wait(event);
  }, true);

  // A file goes the way of one that is chosen; false where there is no place for it.
  SPARE.choose = (file) => {
    const input = document.querySelector('#picture input[type=file]');
    if (!input) return false;
    const files = new DataTransfer();
    files.items.add(file);
    input.files = files.files;
    input.dispatchEvent(new Event('change', {bubbles: true}));
    return true;
  };

  // So does a picture pasted anywhere on the page. Office programs add one to the words that they copy:
  // in a box these are meant, unless they only name the picture, as those of a copied file do.
  document.addEventListener('paste', (event) => {
    const file = [...event.clipboardData?.files ?? []].find(({type}) => type.startsWith('image/'));
    const words = event.target.matches?.('textarea, input') && event.clipboardData.getData('text');
    if (!file || (words && !words.includes(file.name))) return;
    if (SPARE.choose(file)) event.preventDefault();
  });

  // And one that is dropped beside the box, as on the stage: a browser may leave the page for it.
  let ofPage = false;  // what is dragged
  document.addEventListener('dragstart', () => { ofPage = true; });
  document.addEventListener('dragend', () => { ofPage = false; });
  const brings = ({dataTransfer, target}) => !ofPage && dataTransfer?.types.includes('Files')
    && !target.closest?.('#picture');
  document.addEventListener('dragover', (event) => {
    if (brings(event)) event.preventDefault();
  });
  document.addEventListener('drop', (event) => {
    if (!brings(event)) return;
    event.preventDefault();
    const file = [...event.dataTransfer.files].find(({type}) => type.startsWith('image/'));
    if (file) SPARE.choose(file);
    else tell('This file is not a picture. Save it as PNG or JPEG and drop that.');
  });
})();

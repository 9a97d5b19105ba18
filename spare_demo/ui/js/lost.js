// Once a lost connection is back, Gradio loads the page anew. The visitor's question and settings come back
// by the address of a link, and the picture beside it.
'use strict';
(() => {
  const KEY = 'spare-lost', LOST = 'Connection to the server was lost';

  // Before the page closes its own connections, as it does when the visitor leaves it.
  window.addEventListener('beforeunload', () => {
    const toasts = [...document.querySelectorAll('.toast-body')];
    if (!SPARE.state?.data || !toasts.some(({textContent}) => textContent.includes(LOST))) return;
    const address = new URL(location.href), settings = new URL(SPARE.link.make()).searchParams;
    settings.delete('scene');
    settings.set('q', document.querySelector('#question textarea').value);
    settings.set('lost', '1');
    for (const [name, value] of settings) address.searchParams.set(name, value);
    const picture = document.querySelector('#picture .image-frame img')?.src;
    const visit = {before: location.href, address: address.href, picture};
    sessionStorage.setItem(KEY, JSON.stringify(visit));
  });

  // Null also where a browser forbids it, as in a frame of another site.
  function takeVisit() {
    try {
      const text = sessionStorage.getItem(KEY);
      sessionStorage.removeItem(KEY);
      return JSON.parse(text);
    } catch {
      return null;
    }
  }

  const visit = takeVisit();
  if (!visit) return;
  history.replaceState(null, '', visit.address);

  async function bringPicture() {
    try {
      const answer = await fetch(visit.picture), type = answer.headers.get('content-type');
      if (!answer.ok) throw new Error(answer.statusText);
      const name = decodeURIComponent(new URL(visit.picture).pathname.split('/').pop());
      SPARE.choose(new File([await answer.blob()], name, {type}));
    } catch {  // the server has started anew
      SPARE.tell(document.querySelector('#message'), 'Choose the picture again.');
    }
  }

  const observer = new MutationObserver(() => {
    if (!document.querySelector('#notice .message')) return;
    observer.disconnect();
    history.replaceState(null, '', visit.before);
    if (visit.picture) bringPicture();
  });
  observer.observe(document, {childList: true, subtree: true});
})();

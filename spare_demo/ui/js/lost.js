// Once a lost connection is back, Gradio loads the page anew. The visitor's picture, question and settings
// come back with it: what the address of a link holds by such an address, the picture beside it.
'use strict';
(() => {
  const KEY = 'spare-lost', LOST = 'Connection to the server was lost';

  window.addEventListener('pagehide', () => {
    const told = [...document.querySelectorAll('.toast-body')];
    if (!SPARE.state?.data || !told.some(({textContent}) => textContent.includes(LOST))) return;
    const address = new URL(location.href), linked = new URL(SPARE.link.make()).searchParams;
    linked.delete('scene');
    linked.set('q', document.querySelector('#question textarea').value);
    linked.set('lost', '1');
    for (const [name, value] of linked) address.searchParams.set(name, value);
    const picture = document.querySelector('#picture .image-frame img')?.src;
    const kept = {before: location.href, address: address.href, picture};
    sessionStorage.setItem(KEY, JSON.stringify(kept));
  });

  const kept = JSON.parse(sessionStorage.getItem(KEY));
  if (!kept) return;
  sessionStorage.removeItem(KEY);
  history.replaceState(null, '', kept.address);

  async function bring() {
    history.replaceState(null, '', kept.before);
    try {
      const answer = await fetch(kept.picture), type = answer.headers.get('content-type');
      if (!answer.ok) throw new Error(answer.statusText);
      const name = decodeURIComponent(new URL(kept.picture).pathname.split('/').pop());
      SPARE.choose(new File([await answer.blob()], name, {type}));
    } catch {  // the server has started anew
      SPARE.tell(document.querySelector('#message'), 'Choose the picture again.');
    }
  }

  const observer = new MutationObserver(() => {
    if (!document.querySelector('#notice .message')) return;
    observer.disconnect();
    if (kept.picture) bring();
  });
  observer.observe(document, {childList: true, subtree: true});
})();

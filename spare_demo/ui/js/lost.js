// Once a lost connection is back, Gradio loads the page anew; so does the page itself where the server
// was started anew meanwhile. The visitor's question and settings come back by the address of a link,
// and the picture beside it.
'use strict';
(() => {
  const KEY = 'spare-lost', LOST = 'Connection to the server was lost';

  let restarted = false, opening = null;
  SPARE.on('data', () => { opening ??= SPARE.link.make(); });

  const question = () => document.querySelector('#question textarea').value;

  // Whether the page still shows what it opened on, by its boxes: answers that came meanwhile from the
  // other server may already be of another question or picture, and the link not yet.
  function isAsOpened() {
    const asked = new URL(opening).searchParams;
    return SPARE.link.make() === opening
      && question().trim() === (asked.get('q') ?? '').trim()
      && SPARE.folders(SPARE.picture() ?? '').pop() === (asked.get('scene') ?? '');
  }

  // Gradio closes its own connections when the page is left, takes them for lost, and would load this
  // page anew over the one that the visitor goes to: for as long as that may take, it hears that no
  // server answers. All else is asked as ever, since a download or a 204 leaves the page where it is.
  const ask = window.fetch;
  let leaving = false, waiting;
  window.fetch = async (address, ...more) => {
    const ofServer = String(address).endsWith('/app_id');
    if (ofServer && leaving) throw new TypeError('This page is left.');
    const answer = await ask(address, ...more);
    // Known before Gradio, which asks as well, loads the page anew.
    if (ofServer && answer.ok) restarted = (await answer.clone().json()).app_id !== window.gradio_config.app_id;
    // A proxy's own page, or that of its login, of which Gradio would only say that it is no JSON.
    if (String(address).includes('/queue/join') && !answer.headers.get('content-type')?.includes('json')) {
      const detail = `${LOST}: what stands between answered in its place, with status ${answer.status}. `
        + 'Ask again in a minute, or load the page again.';
      return Response.json({detail}, {status: 502});
    }
    return answer;
  };
  window.addEventListener('beforeunload', () => {
    leaving = true;
    clearTimeout(waiting);
    waiting = setTimeout(() => { leaving = false; }, 30_000);
  });
  window.addEventListener('pageshow', () => { leaving = false; });  // Back, to a page that was kept

  // Whether another server than this page's answers here now: not while none does.
  SPARE.isOtherServer = async () => {
    try {
      const {ok} = await fetch(new URL('gradio_api/app_id', document.baseURI), {cache: 'no-store'});
      return ok && restarted;
    } catch {
      return false;
    }
  };

  // It knows nothing of this page, whose runs may never be answered there.
  async function checkServer() {
    if (await SPARE.isOtherServer()) location.reload();
  }
  document.addEventListener('click', checkServer, true);
  document.addEventListener('keydown', ({key}) => { if (key === 'Enter') checkServer(); }, true);

  window.addEventListener('pagehide', () => {
    const toasts = [...document.querySelectorAll('.toast-body')];
    const lost = restarted || toasts.some(({textContent}) => textContent.includes(LOST));
    if (!SPARE.state?.data || !lost) return;
    if (restarted && isAsOpened()) return;  // the other server's page has an opening of its own
    const address = new URL(location.href), settings = new URL(SPARE.link.make()).searchParams;
    settings.delete('scene');
    settings.set('q', question());
    settings.set('lost', '1');
    for (const [name, value] of settings) address.searchParams.set(name, value);
    const visit = {before: location.href, address: address.href, picture: SPARE.picture()};
    SPARE.remember(KEY, JSON.stringify(visit));
  });

  const visit = JSON.parse(SPARE.remember(KEY, null));
  if (visit?.before !== location.href) return;  // a link was opened meanwhile
  history.replaceState(null, '', visit.address);

  async function bringPicture() {
    try {
      const answer = await fetch(visit.picture, {cache: 'force-cache'});
      const type = answer.headers.get('content-type');
      if (!answer.ok) throw new Error(answer.statusText);
      const name = SPARE.folders(new URL(visit.picture).pathname).pop();
      return SPARE.choose(new File([await answer.blob()], name, {type}));
    } catch {  // the server was started anew, and the browser has it no more
      SPARE.tell(document.querySelector('#message'), 'Choose the picture again.');
      return false;
    }
  }

  const observer = new MutationObserver(() => {
    if (!document.querySelector('#notice .message')) return;
    observer.disconnect();
    history.replaceState(null, '', visit.before);
    if (visit.picture) SPARE.expectPicture(bringPicture());
  });
  observer.observe(document, {childList: true, subtree: true});
})();

// A refusal stands beside the button that was pressed, and the results of a search stand below it. Either
// may be out of sight, and is scrolled to.
'use strict';
(() => {
  // A page that moves meanwhile can end a scroll on its way, so it is looked at again; whoever
  // scrolls or types by then has seen enough.
  const PAUSES = [400, 800, 1600];  // milliseconds
  const MESSAGES = '.message, .tried, .carried';
  let hand = 0;
  for (const kind of ['wheel', 'touchmove', 'keydown', 'pointerdown']) {
    addEventListener(kind, () => { hand = performance.now(); }, {capture: true, passive: true});
  }

  function bring(message) {
    SPARE.bring(message);
    const began = performance.now();
    for (const pause of PAUSES) {
      setTimeout(() => {
        const {top, bottom} = message.getBoundingClientRect();
        const away = bottom > top && (top >= innerHeight || bottom <= 0);
        if (message.isConnected && away && hand < began) message.scrollIntoView({block: 'nearest'});
      }, pause);
    }
  }

  SPARE.observe(document, (changes) => {
    for (const {addedNodes} of changes) {
      for (const node of addedNodes) {
        const part = node.matches?.(MESSAGES) ? node : node.querySelector?.(MESSAGES);
        const message = part?.closest('#enough, #carrier') ?? part;
        if (message) bring(message);
      }
    }
  });
})();

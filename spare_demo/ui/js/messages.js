// What is refused is said beside the button that was pressed, and may be out of sight there.
'use strict';
new MutationObserver((changes) => {
  for (const {addedNodes} of changes) {
    for (const node of addedNodes) {
      const message = node.matches?.('.message') ? node : node.querySelector?.('.message');
      message?.scrollIntoView({block: 'nearest', behavior: SPARE.calm() ? 'auto' : 'smooth'});
    }
  }
}).observe(document, {childList: true, subtree: true});

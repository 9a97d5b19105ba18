// The page of another model on the same address: when it opens, and what became of earlier results.
'use strict';
(() => {
  const reopened = async () => {
    if (!await SPARE.isOtherServer()) return false;
    location.reload();
    return true;
  };

  // After "Load it", or a run that broke off: look every second whether the new page is there, until
  // it is or was refused.
  SPARE.awaitModel = async (tries = Infinity) => {
    const refused = () => document.querySelector('#model-status [role=alert]');
    while (tries-- > 0 && !refused() && !(await reopened())) {
      await new Promise((wait) => setTimeout(wait, 1000));
    }
  };

  // Once the page is open. Other tabs notice when somebody comes back to them.
  SPARE.announceModel = (model, title) => {
    const before = SPARE.remember('spare-model', model);
    if (before && before !== model) {
      const line = document.createElement('p');
      line.className = 'message news';
      line.setAttribute('role', 'status');
      line.textContent = `${title} is loaded. Earlier results are gone: ask again.`;
      document.querySelector('#model-changed')?.replaceChildren(line);
    }
    window.addEventListener('focus', reopened);
    document.addEventListener('visibilitychange', () => document.hidden || reopened());
  };
})();

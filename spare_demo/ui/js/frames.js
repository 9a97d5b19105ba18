// Gradio's first "Loading…" asks for the next frame for ever, also when it is gone, so that an idle
// page never rests. Its clock, which nothing shows, ends once the page stands.
'use strict';
(() => {
  const ask = window.requestAnimationFrame.bind(window);
  let isEarly = false;  // the frame at hand was asked for before the page stood, or by one that was
  window.requestAnimationFrame = (callback) => {
    const stands = document.getElementById('stage');
    if (stands && isEarly && String(callback).includes('performance.now')) return 0;
    const early = isEarly || !stands;
    return ask((time) => {
      isEarly = early;
      try { callback(time); } finally { isEarly = false; }
    });
  };
})();

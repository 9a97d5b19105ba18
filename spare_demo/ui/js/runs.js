// Stop stands in the place of Ask, and of Run in the Lab, while a run of this page waits or goes on. The
// page counts its runs by itself: the server's word of one may come late, or after the end of the next.
'use strict';
(() => {
  let byKey = false;
  document.addEventListener('pointerdown', () => { byKey = false; }, true);

  const countRuns = (button, stop, mark, atRest = () => {}) => {
    let going = 0, stopping = 0, stopIsAsked = false;
    const show = () => {
      const busy = going > 0 || stopIsAsked;
      const held = document.activeElement?.matches(`${button}, ${stop}`);
      document.body.classList.toggle(mark, busy);
      // Who presses either on the keyboard stays on the one that is there.
      if (held && byKey) document.querySelector(busy ? stop : button)?.focus({preventScroll: true});
      if (!busy) atRest();
    };
    return {
      goes: () => going > 0,
      begin() { going += 1; show(); },
      end() { [going, stopping] = [going - 1, stopping - 1].map((n) => Math.max(n, 0)); show(); },
      // The button is back only with the server's answer, which shows what had been found: it would
      // overwrite the results of a run begun before it. After it no earlier run is waited for.
      stop() { [stopping, stopIsAsked] = [going, true]; show(); },
      stopped() { [going, stopping, stopIsAsked] = [going - stopping, 0, false]; show(); },
    };
  };

  SPARE.runs = {
    // A search that has no end when Stop goes was stopped, whatever runs after it.
    ask: countRuns('#ask', '#stop', 'answering', () => {
      document.querySelectorAll('.unfinished').forEach((words) => {
        words.classList.replace('unfinished', 'stopped');
      });
    }),
    run: countRuns('#lab-run', '#lab-stop', 'measuring'),
  };

  // The second click of a double click is not meant for the button that appears under it. A press
  // begins a run even while another goes on ("multiple" in wiring.py), so what only follows another
  // press is kept back here.
  const DOUBLE = 500;  // milliseconds; where the browser counts no clicks, as those of fingers
  let begun = -Infinity, asked = null;
  const question = () => document.querySelector('#question textarea')?.value;
  document.addEventListener('click', (event) => {
    const begins = event.target.closest?.('#ask, #lab-run');
    const ends = event.target.closest?.('#stop, #lab-stop');
    if (event.target.closest?.('#examples, #chips, #scene')) asked = null;
    if (!begins && !ends) return;
    byKey = event.detail === 0;
    // upload.js presses Ask by itself, once a picture is here. Another question is asked anew.
    const soon = event.isTrusted && event.timeStamp - begun < DOUBLE
      && (ends || question() === asked);
    // `detail` counts the clicks of one row, however slow the machine or the hand.
    if (soon || (ends && event.detail > 1)) event.stopImmediatePropagation();
    else if (begins) [begun, asked] = [event.timeStamp, question()];
  }, true);
  document.addEventListener('keydown', (event) => {
    if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
    const asks = event.target.closest?.('#question');
    if (!asks && !event.target.closest?.('#ask, #stop, #lab-run, #lab-stop')) return;
    if (event.repeat || (asks && SPARE.runs.ask.goes() && question() === asked)) {
      event.preventDefault();
      event.stopImmediatePropagation();
    } else if (asks) {
      asked = question();
    }
  }, true);
})();

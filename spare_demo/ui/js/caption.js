// The words below the pictures: what these have in common; once a patch is marked, why each method
// kept it or not, since the panel that says more is further down, until the pictures show something else.
'use strict';
SPARE.caption = (element) => {
  const {state} = SPARE, {drawn} = SPARE.layers;
  const viewer = element.firstElementChild, caption = element.querySelector('.caption');
  const sheet = matchMedia('(max-width: 720px), (hover: none)');  // there a sheet says it: js/phone.js
  let sentence = '', ofPatch = false;

  // What two maps of one kind have in common; each one's numbers follow.
  const pairs = {
    weight: 'Text weight of each patch: the higher, the sooner it is picked, all else being equal.',
    leftover: 'Share of each patch that the kept tokens cannot reconstruct, from 0 to 1.',
    carrier: 'How much log probability, in nats, the answer loses without each of the kept tokens.',
  };

  function write() {
    const reasons = ofPatch && state.lit && !sheet.matches ? state.reasons : '';
    viewer.classList.toggle('lit', Boolean(reasons));
    if (reasons) caption.innerHTML = reasons;
    else if (caption.textContent !== sentence) caption.textContent = sentence;
  }
  SPARE.on('cursor', () => { ofPatch = true; });
  for (const event of ['chosen', 'repaint']) SPARE.on(event, () => { ofPatch = false; write(); });
  SPARE.on('remark', write);
  SPARE.on('unlit', write);

  return {
    // Of all three pictures; pictures: those that show the layer itself.
    describe: SPARE.throttle((pictures) => {
      const {data, k, layer} = state;
      const of = layer === 'kept' ? [drawn.difference(data, k)] : pictures;
      sentence = pairs[layer] && of.every((picture) => picture.numbers)
        ? `${pairs[layer]} ${of.map(({numbers}, i) => `${data.slots['AB'[i]].label}: ${numbers}.`).join(' ')}`
        : [...new Set(of.map((picture) => picture.sentence))].join(' ');
      write();
    }),
    say(words) { sentence = words; write(); },
  };
};

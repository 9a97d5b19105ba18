// The slider over the layers of the language model, for methods that drop tokens between them.
'use strict';
SPARE.depth = (element) => {
  const {state, escape} = SPARE;
  const box = element.querySelector('.depth');
  const slider = box.querySelector('input'), profile = box.querySelector('.profile');
  const place = box.querySelector('.place'), sentences = box.querySelector('.sentences');
  let shown = '';

  function draw() {
    const {data, k} = state;
    const slots = data.inside.filter((name) => data.perLayer(name, k));
    box.hidden = !slots.length;
    if (box.hidden) return;
    const at = state.depth = SPARE.layers.depthOf(data);
    slider.max = data.depth;
    slider.value = at + 1;
    const parts = slots.map((name) => ({name, ...data.perLayer(name, k)}));
    const counts = parts.map(({name, counts: of}) => `${data.slots[name].label} ${of[at]}`);
    const words = `Layer ${at + 1} of ${data.depth}: ${counts.join(' · ')} of ${data.n} tokens`;
    slider.setAttribute('aria-valuetext', words);
    place.textContent = words;
    const now = JSON.stringify([at, parts.map(({name, counts: of}) => [name, of])]);
    if (now === shown) return;
    shown = now;
    sentences.innerHTML = parts.map(({sentence}) => `<p>${escape(sentence)}</p>`).join('');
    profile.innerHTML = Array.from({length: data.depth}, (_, layer) => `<span${layer === at ? ' class="here"' : ''}>` +
      parts.map(({name, counts: of}) => `<i class="${name.toLowerCase()}" ` +
        `style="height:${(100 * of[layer] / data.n).toFixed(1)}%"></i>`).join('') + '</span>').join('');
  }

  function go(layer) {
    const next = Math.min(state.data.depth - 1, Math.max(0, layer));
    if (next === state.depth) return;
    state.depth = next;
    SPARE.emit('repaint');
  }

  slider.addEventListener('input', () => go(Number(slider.value) - 1));
  box.querySelector('.shallower').addEventListener('click', () => go(state.depth - 1));
  box.querySelector('.deeper').addEventListener('click', () => go(state.depth + 1));
  profile.addEventListener('click', ({target}) => {
    const column = target.closest('.profile > span');
    if (column) go([...profile.children].indexOf(column));
  });
  SPARE.on('painted', draw);

  const linked = Number(SPARE.link.read()?.depth);
  if (Number.isInteger(linked) && linked > 0) state.depth = linked - 1;
};

// An address that opens these settings again. It carries no picture but a shipped example's name.
'use strict';
SPARE.link = {
  make() {
    const {data, k, layer, pane, depth} = SPARE.state, query = new URLSearchParams(data.link);
    const show = pane ? SPARE.layers.trios[layer][pane] : layer;  // a large one under its own name
    query.set('k', k);
    query.set('show', show);
    if (pane !== null) query.set('of', ['first', 'A', 'B'][pane]);
    if (data.inside.length && depth !== null) query.set('depth', depth + 1);
    return `${location.origin}${location.pathname}?${query}`;
  },

  // What the address of this page asks for, null where it asks for nothing.
  read() {
    const query = Object.fromEntries(new URLSearchParams(location.search));
    return ['a', 'b', 'k', 'q', 'scene', 'lost'].some((name) => name in query) ? query : null;
  },

  // The layer that a link shows, and which picture of it large: "" for all three. Links of the first
  // edition name one picture, and a method with it even where it is of both.
  view({show = 'kept', of = ''}) {
    if (show === 'all') return {layer: 'kept', pane: ''};
    if (show === 'A' || show === 'B') return {layer: 'kept', pane: show === 'A' ? '1' : '2'};
    const both = SPARE.layers.trios[show]?.[0] === show;
    return {layer: show, pane: of && both ? '0' : {first: '0', A: '1', B: '2'}[of] ?? ''};
  },

  async copy(button) {
    const address = SPARE.link.make(), note = button.nextElementSibling;
    if (!await SPARE.copy(address)) {
      // Within another site's page, as on the Hugging Face hub, no address bar shows it either.
      const link = Object.assign(document.createElement('a'), {href: address, target: '_blank'});
      link.textContent = 'this link';
      note.replaceChildren('This browser does not let the page copy. Copy ', link, ' by hand.');
    } else if (new URL(address).searchParams.has('scene')) {
      note.textContent = 'Copied.';
    } else {
      note.textContent =
        'Copied. The link holds settings only, so the picture must be chosen again.';
    }
  },
};

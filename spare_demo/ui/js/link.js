// An address that opens these settings again. It carries no picture but a shipped example's name.
'use strict';
SPARE.link = {
  make() {
    const {data, k, layer, slot, depth} = SPARE.state, query = new URLSearchParams(data.link);
    for (const [name, value] of Object.entries({k, show: layer, of: slot})) query.set(name, value);
    if (data.inside.length && depth !== null) query.set('depth', depth + 1);
    return `${location.origin}${location.pathname}?${query}`;
  },

  // What the address of this page asks for, null where it asks for nothing.
  read() {
    const query = Object.fromEntries(new URLSearchParams(location.search));
    return ['a', 'b', 'k', 'q', 'scene'].some((name) => name in query) ? query : null;
  },

  async copy(button) {
    const address = SPARE.link.make();
    const note = SPARE.state.data.example === null
      ? 'Copied. A link carries settings only: the picture must be chosen again.' : 'Copied.';
    try {
      await navigator.clipboard.writeText(address);
      button.nextElementSibling.textContent = note;
    } catch {  // no permission, or a page without https
      history.replaceState(null, '', address);
      button.nextElementSibling.textContent = 'The link stands in the address bar.';
    }
  },
};

// What all of the page's own JavaScript shares: a tiny bus, what the server sends, and how numbers are
// written.
'use strict';
window.SPARE = (() => {
  const SENTENCES = {};  // ui/viewer.py puts them here
  const listeners = {};

  function on(name, handler) {
    (listeners[name] ??= []).push(handler);
  }

  function emit(name, ...values) {
    for (const handler of listeners[name] ?? []) handler(...values);
  }

  // Questions to the server, one after the other, of one kind and method only the latest: of two
  // replies in one moment only one would arrive. One that stays without an answer does not hold up
  // the others.
  const PATIENCE = 15000;  // milliseconds
  const waiting = new Map();
  let pending = null, alarm = 0;

  function ask(trigger, kind, what) {
    waiting.set(`${kind} ${what.slot ?? ''}`, {kind, send: () => trigger(kind, what)});
    sendNext();
  }

  function sendNext() {
    if (pending || !waiting.size) return;
    const [[name, {kind, send}]] = waiting;
    waiting.delete(name);
    pending = kind;
    alarm = setTimeout(giveUp, PATIENCE);
    send();
  }

  function giveUp() {
    emit('unanswered', pending);
    closeRequest();
  }

  function closeRequest() {
    clearTimeout(alarm);
    pending = null;
    sendNext();
  }
  on('reply', ({kind, asked}) => {
    if (kind === pending) setTimeout(closeRequest);
    else if (pending && asked === pending) giveUp();  // refused, with a sentence
  });

  // Bytes out of base64.
  const decode = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0)).buffer;

  const kinds = {f4: Float32Array, i4: Int32Array, i2: Int16Array, u2: Uint16Array, u1: Uint8Array};

  // A file that the server has written for this page (ui/viewer.py).
  async function fetchFile(path) {
    const {root, api_prefix} = window.gradio_config;
    const place = path.split('/').map(encodeURIComponent).join('/');  // a folder may be named a#b
    const answer = await fetch(`${root}${api_prefix}/file=${place}`);
    if (!answer.ok) throw new Error(`${answer.status}`);
    return answer;
  }

  // A file as wire.py makes it -> what it holds; its arrays are typed arrays on the file itself.
  function unbundle(file) {
    const length = new DataView(file).getUint32(0, true), after = 4 + Math.ceil(length / 4) * 4;
    const head = new TextDecoder().decode(new Uint8Array(file, 4, length));
    return JSON.parse(head, (_, value) => (value?.from === undefined || !kinds[value.type] ? value
      : new kinds[value.type](file, after + value.from, value.count)));
  }

  // A message as wire.py makes it, for whoever waits for its kind; its arrays are typed arrays.
  const receive = (message) => emit('reply', JSON.parse(message, (_, value) => (
    value?.data === undefined || !kinds[value.type] ? value
      : new kinds[value.type](decode(value.data)))));

  // Three significant digits of `scale` (of the value itself without one), as render/base.py.
  function number(value, signed = false, scale = null) {
    const size = Math.abs(scale ?? value);
    if (!size || !value) return '0';
    const digits = 2 - Math.floor(Math.log10(size));
    const plain = digits >= -4 && digits <= 6;
    const text = plain ? value.toFixed(Math.max(digits, 0)) : value.toExponential(2);
    if (!Number(text)) return text.replace('-', ''); // what is rounded to 0 has no sign
    return signed && value > 0 ? '+' + text : text;
  }

  // Never 0 % or 100 % of what is not.
  const percent = (share) => (share > 0 && share < 0.0005 ? 'less than 0.1 %'
    : share > 0.9995 && share < 1 ? 'more than 99.9 %'
      : (100 * share).toFixed(share < 0.1 || (share >= 0.995 && share < 1) ? 1 : 0) + ' %');
  const tokensWord = (count) => (count === 1 ? '1 token' : `${count} tokens`);

  // A sentence of render/sentences.py with its places filled in.
  const say = (name, values) => (
    SENTENCES[name].replace(/{(\w+)}/g, (_, place) => values[place]));

  function escape(text) {
    const names = {'&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;'};
    return String(text).replace(/[&<>"']/g, (letter) => names[letter]);
  }

  // Mean Jaccard index of two random sets of these sizes: exact, by the hypergeometric law.
  function expectedJaccard(n, ka, kb) {
    if (ka + kb === 0) return 1;
    const least = Math.max(0, ka + kb - n), most = Math.min(ka, kb);
    let weight = 1, total = 0, sum = 0;  // weights relative to the first; rescaled when large
    for (let both = least; both <= most; both++) {
      total += weight;
      sum += weight * both / (ka + kb - both);
      weight *= ((ka - both) * (kb - both)) / ((both + 1) * (n - ka - kb + both + 1));
      if (total > 1e200) { total /= 1e200; sum /= 1e200; weight /= 1e200; }
    }
    return sum / total;
  }

  function ends(values) {
    let least = Infinity, most = -Infinity, sum = 0;
    for (let i = 0; i < values.length; i++) {
      least = Math.min(least, values[i]);
      most = Math.max(most, values[i]);
      sum += values[i];
    }
    return {least, most, mean: sum / values.length};
  }

  // The address of the picture in the box, and what the server knows it by: the address ends in that
  // name and its file, as ui/visit.py says. Windows parts them by backslashes, which Gradio writes as %5C.
  const folders = (address) => decodeURIComponent(address).split(/[/\\]/);
  const picture = () => document.querySelector('#picture .image-frame img')?.src;
  const pictureName = () => folders(picture() ?? '').at(-2);

  // Hands a file over to the visitor, whom an iPhone asks first whether to take it.
  function save(blob, name) {
    const link = document.createElement('a');
    link.href = URL.createObjectURL(blob);
    link.download = name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
  }

  // For words, which nobody reads 60 times a second, and which move what lies below them: at once,
  // then at most ten times a second, the last of them always.
  function throttle(write) {
    let timer = 0, last = null;
    return function throttled(...values) {
      last = values;
      if (timer) return;
      write(...values);
      last = null;
      timer = setTimeout(() => { timer = 0; if (last) throttled(...last); }, 100);
    };
  }

  // A sentence of the page's own in a place, under those of the server, which Gradio draws and nobody
  // else may touch; '' takes it away.
  function tell(place, sentence) {
    place?.querySelector(':scope > .message')?.remove();
    if (!sentence) return;
    const words = document.createElement('p');
    words.className = 'message';
    words.setAttribute('role', 'alert');
    words.textContent = sentence;
    place.append(words);
  }

  // What this tab remembers by a name; from now on it is the text, or nothing for null. null also where
  // a browser forbids it, as in a frame of another site, or has no room.
  function remember(name, text) {
    try {
      const before = sessionStorage.getItem(name);
      if (text === null) sessionStorage.removeItem(name); else sessionStorage.setItem(name, text);
      return before;
    } catch {
      return null;
    }
  }

  // Calls back after what lies below an element has changed, or one of these attributes there.
  const observe = (element, react, attributeFilter) => (
    new MutationObserver(react).observe(element, {childList: true, subtree: true, attributeFilter}));

  const calm = () => matchMedia('(prefers-reduced-motion: reduce)').matches;

  // Scrolls until an element is in sight, or with block 'start' at the top.
  const bring = (element, block = 'nearest') => (
    element.scrollIntoView({block, behavior: calm() ? 'auto' : 'smooth'}));

  // Writes a text to the clipboard; false without permission, or on a page without https.
  const copy = (text) => navigator.clipboard?.writeText(text).then(() => true, () => false) ?? false;

  // Open what is folded away under a title, and go there once it is as high as it gets.
  function unfold(name) {
    const fold = document.getElementById(name), title = fold.querySelector('.label-wrap');
    if (!title.classList.contains('open')) title.click();
    title.focus({preventScroll: true});
    const go = () => bring(fold, 'start');
    requestAnimationFrame(() => requestAnimationFrame(go));
  }

  const saved = false;  // whether this is a saved page (js/saved.js), with no server to ask

  return {saved, on, emit, receive, ask, fetchFile, decode, unbundle, number, percent, tokensWord,
          say, escape, expectedJaccard, ends, folders, picture, pictureName, save, throttle, tell,
          remember, observe, calm, bring, copy, unfold};
})();

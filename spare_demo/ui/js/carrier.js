// Which kept token carries the answer: what leaving out each one costs, as a map, and a button that
// asks without one. Measured on the server (analysis/leave_one_out.py); the last result is kept.
'use strict';
(() => {
  const {colours, tokensWord, ends, layers: {nothing, scale}} = SPARE;
  let last = null;  // {of, budget, slots, refused, number}

  SPARE.layers.drawn.carrier = (data, k, slot) => {
    const {label, merges} = data.slots[slot];
    const result = last?.of === data.of ? last : null;
    if (result?.budget !== k) {
      const at = result ? `Measured at ${tokensWord(result.budget)}, not at ${k}. ` : '';
      return nothing(`${at}Press “Which token carries the answer?” to measure it at this budget.`);
    }
    if (result.refused[slot]) return nothing(`${label}: ${result.refused[slot]}`);
    const {tokens, losses, answer} = result.slots[slot];
    const {least, most, mean} = ends(losses), top = tokens[losses.indexOf(most)];
    const {level, text, bar} = scale(Math.min(0, least), Math.max(0, most));
    return {
      name: `carrier ${slot} ${result.number}`, base: 'dim',
      keys(into) {
        into.fill(0);
        tokens.forEach((token, i) => { into[token] = 1 + level(losses[i]) | (token === top) << 13; });
      },
      cell(paint, i, key) {
        paint.copy(i, 'grey');
        paint.fill(i, colours.levels[(key & 8191) - 1], 0.7);
        if (key >> 13) paint.outline(i, '#fff', paint.line, 0);
      },
      get legend() { return bar(mean) + '<span class="key none">dropped</span>'; },
      get numbers() {
        return `from ${text(least)} to ${text(most)}, mean ${text(mean)}, most without ${data.where(top)}`;
      },
      get sentence() {
        const rows = merges ? 'merged rows, drawn at their largest parts' : tokensWord(tokens.length);
        return `How much log probability ${label}'s answer “${answer}” loses without each of its ${rows}: ` +
          `from ${text(least)} to ${text(most)} nats, mean ${text(mean)}. Most is lost ` +
          `without the patch in ${data.where(top)}, framed in white.`;
      },
    };
  };

  SPARE.on('reply', (reply) => {
    if (reply.kind !== 'carrier') return;
    last = reply;
    document.querySelector('.layers input[value=carrier]').closest('label').hidden = false;
    SPARE.emit('layer', 'carrier');
  });

  document.addEventListener('click', ({target}) => {
    const button = target.closest?.('.remove-carrier');
    if (button) SPARE.askWith(JSON.parse(button.dataset.others));
  });
})();

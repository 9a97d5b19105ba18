// The same colours as render/base.py.
'use strict';
SPARE.colours = (() => {
  const named = {A: [0, 114, 178], B: [213, 94, 0], H: [0, 158, 115]};
  const table = [
    [0, 0, 34, 78], [19, 0, 48, 111], [21, 0, 49, 112], [23, 1, 50, 113], [28, 18, 53, 112],
    [34, 30, 58, 111], [52, 54, 70, 108], [84, 86, 92, 109], [126, 123, 122, 120],
    [147, 143, 138, 120], [179, 174, 163, 113], [205, 201, 185, 101], [219, 217, 197, 92],
    [232, 231, 209, 80], [243, 243, 219, 66], [251, 253, 227, 52], [255, 254, 232, 56],
  ];

  function between(stops, share) {  // stops: [place, r, g, b]
    let i = 1;
    while (i < stops.length - 1 && stops[i][0] < share) i++;
    const [low, high] = [stops[i - 1], stops[i]];
    const t = Math.min(1, Math.max(0, (share - low[0]) / (high[0] - low[0])));
    return [1, 2, 3].map((c) => Math.round(low[c] + t * (high[c] - low[c])));
  }

  const fine = Array.from({length: 4096}, (_, i) => between(table, i / 4095 * 255));
  const level = (share) => Math.round(Math.min(1, Math.max(0, share)) * 4095);
  const cividis = (share) => fine[level(share)];

  function ramp(hue, share) {  // dark, the hue itself, light
    const stops = [[0, ...hue.map((c) => c * 0.35)], [0.5, ...hue],
                   [1, ...hue.map((c) => c * 0.25 + 255 * 0.75)]];
    return between(stops, share);
  }

  const css = ([r, g, b]) => `rgb(${r},${g},${b})`;
  const mark = Object.fromEntries(Object.entries(named).map(([name, hue]) => [name, css(hue)]));
  const levels = fine.map(css);  // by level

  // The shade of a named hue at a step of so many (below 128) from dark to light, and what to write
  // on it: made once each.
  const shades = new Map();
  function shade(name, step, most) {
    const at = ((name.charCodeAt(0) << 7) | most) << 7 | step;
    if (!shades.has(at)) {
      const rgb = ramp(named[name], step / most);
      const light = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2];
      shades.set(at, {fill: css(rgb), ink: light < 128 ? '#fff' : '#000'});
    }
    return shades.get(at);
  }

  const gradient = (of) =>
    `linear-gradient(to right,${Array.from({length: 17}, (_, i) => css(of(i / 16))).join()})`;
  // For legends, by name: of the map, and of each hue from dark to light.
  const bars = {map: gradient(cividis)};
  for (const [name, hue] of Object.entries(named)) bars[name] = gradient((t) => ramp(hue, t));
  return {mark, level, levels, shade, bars};
})();

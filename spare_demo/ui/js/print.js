// On paper the page is light, and its plots are as wide as the sheet, which nobody knows before.
'use strict';
(() => {
  const plots = () => document.querySelectorAll('.main-svg');
  // Gradio takes what a style sheet says of its outermost box on paper for another's.
  const setOverflow = (overflow) => {
    document.querySelector('.gradio-container').style.overflow = overflow;
  };
  let dark = false;
  window.addEventListener('beforeprint', () => {
    dark = document.body.classList.contains('dark');
    document.body.classList.remove('dark');
    setOverflow('visible');
    for (const plot of plots()) {
      const {width, height} = plot.getBoundingClientRect();
      if (width) plot.setAttribute('viewBox', `0 0 ${width} ${height}`);
    }
  });
  window.addEventListener('afterprint', () => {
    document.body.classList.toggle('dark', dark);
    setOverflow('');
    for (const plot of plots()) plot.removeAttribute('viewBox');
  });
})();

// Says once when a part of the page comes near: what is large is loaded then.
'use strict';
SPARE.near = (element, trigger) => {
  const watch = new IntersectionObserver((seen) => {
    if (!seen.some(({isIntersecting}) => isIntersecting)) return;
    watch.disconnect();
    trigger('near');
  }, {rootMargin: '400px'});
  watch.observe(element);
};

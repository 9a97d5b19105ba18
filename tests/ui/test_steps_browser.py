"""No step of a run is lost on a page that is slow to read what it was sent."""

from __future__ import annotations

import browsing

from spare_demo.pruners import PRUNERS

expect = browsing.expect

pytestmark = browsing.MARKS

# So busy that several steps wait to be read.
_BUSY = """() => setInterval(() => {
  const start = performance.now();
  while (performance.now() - start < 180);
}, 190)"""


def test_every_step_reaches_a_busy_page(reader) -> None:
    menu, page = reader.find("#method-b input"), reader.page
    curve, caption = reader.curve(), reader.caption
    stalled = page.evaluate(_BUSY)
    for name in ("divprune", "uniform"):  # one nested, one not
        title = PRUNERS[name].title
        menu.fill(title)
        menu.press("Enter")
        expect(caption).to_contain_text(f"B {title}")
        expect(curve).to_contain_text(f"B {title}")
        expect(reader.find("#ask")).to_be_visible()
    page.evaluate("stalled => clearInterval(stalled)", stalled)


def test_a_page_where_nothing_goes_on_draws_no_frames(visitor) -> None:
    """Gradio's own loading clock would ask for every next one for ever."""
    visitor.page.evaluate("""() => {
        const ask = requestAnimationFrame;
        window.requestAnimationFrame = (callback) => { frames += 1; return ask(callback); };
        window.frames = 0;
    }""")
    visitor.page.wait_for_function("""async () => {
        const before = frames;
        await new Promise(done => setTimeout(done, 500));
        return frames === before;
    }""")

"""The page in a real browser, for page.py: every wait has an end, and says what was waited for."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

LAYERS = {"576": ("kept", "difference", "order", "relevance", "leftover"),
          "2,880": ("kept", "difference", "order", "relevance")}  # fmt: skip
"""What is scrubbed, by the number of tokens; leftovers of 2,880 are asked of the server."""

TYPING = 0.5
"""Seconds between the upload and the press on Ask, in which the page looks at the new picture;
less than anybody needs to type a question."""

_FINISHED = """() => window.SPARE?.state.data &&
    document.querySelector('#answers .figures, #answers .instead')"""
_SINCE_FIRST_PAINT = """() => (performance.now() -
    performance.getEntriesByName('first-contentful-paint')[0].startTime) / 1000"""
_ANSWERED = """() => {
  const lines = [...document.querySelectorAll('#answers .figures')];
  return lines.length === 3 && lines.every(line => line.innerText.includes('prefill'));
}"""

# Scrubs through the budgets, one per frame, without a pause. Seconds from each frame to the next,
# and from the frame's begin until the page had drawn. A browser that draws no frame is given up.
_SCRUB = """async ([layer, budgets, most]) => {
  SPARE.emit('layer', layer);
  await new Promise(done => setTimeout(done, 300));
  const data = SPARE.state.data, end = performance.now() + 1000 * most;
  const steps = Math.min(budgets, data.n), between = [], drawn = [];
  let last = null, waited;
  const stuck = new Promise(done => { waited = () => done('no frame'); });
  let alarm = setTimeout(waited, 10000);
  const run = new Promise(done => {
    let step = 0;
    const frame = begin => {
      clearTimeout(alarm);
      if (last !== null) between.push((begin - last) / 1000);
      if (step) drawn.push((performance.now() - begin) / 1000);
      last = begin;
      if (step === steps || performance.now() > end) return done('');
      SPARE.emit('budget', 1 + Math.round(step++ * (data.n - 1) / Math.max(1, steps - 1)));
      alarm = setTimeout(waited, 10000);
      requestAnimationFrame(frame);
    };
    requestAnimationFrame(frame);
  });
  const trouble = await Promise.race([run, stuck]);
  clearTimeout(alarm);
  return {trouble, between, drawn, steps};
}"""

# A made-up comparison of 2,880 tokens, drawn by the real viewer.
_LARGE = """async () => {
  const n = 2880, rows = 48, columns = 60, patch = 16;
  const order = () => {
    const all = Uint16Array.from({length: n}, (_, i) => i);
    for (let i = n - 1; i > 0; i--) {
      const j = Math.floor(Math.random() * (i + 1));
      [all[i], all[j]] = [all[j], all[i]];
    }
    return all;
  };
  const numbers = () => Float32Array.from({length: n}, Math.random);
  const sheet = document.createElement('canvas');
  Object.assign(sheet, {width: columns * patch, height: rows * patch});
  const ctx = sheet.getContext('2d');
  for (let i = 0; i < 4000; i++) {
    ctx.fillStyle = `hsl(${i % 360} 60% 50%)`;
    ctx.fillRect(Math.random() * sheet.width, Math.random() * sheet.height, 30, 30);
  }
  const method = label => ({name: label, title: label, label, nested: true, order: order(),
    weight: numbers(), factors: null, merges: false});
  const file = await new Promise(done => sheet.toBlob(done));
  await SPARE.show({
    key: 'large', of: 'large', picture: await file.arrayBuffer(), n, rows, columns, cells: null,
    link: '', badge: '', parts: [{start: 0, rows, cols: columns}], cosine: numbers(), by: 'clip',
    squared_norms: numbers(), methods: {A: method('A one'), B: method('B two')},
    coordinates: null, padding: new Uint8Array(n), shown: 64,
    canvas: {patch, x: 0, y: 0, width: sheet.width, height: sheet.height, cropped: false,
             photos: [[0, 0, sheet.width, sheet.height]]},
  });
}"""


class Overdue(Exception):
    """Something did not come in its time; the message says what, in a sentence."""


@contextmanager
def browsing(url: str, patience: float) -> Iterator[Driver]:
    """A browser for the app at `url`; nothing is waited for longer than `patience` seconds."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path="/usr/bin/chromium", args=["--disable-dev-shm-usage"]
        )
        try:
            yield Driver(browser, url, patience)
        finally:
            browser.close()


class Driver:
    """What a visitor does, timed.

    Attributes:
        url: of the app.
        patience: seconds.
    """

    def __init__(self, browser: Any, url: str, patience: float) -> None:
        self._browser, self.url, self.patience = browser, url, patience
        self.page: Any = None

    def waited(self, what: str, step: Callable[[], Any]) -> Any:
        """The step's result, or Overdue; `what` completes "Waited … s for"."""
        from playwright.sync_api import TimeoutError as Late

        try:
            return step()
        except Late:
            raise Overdue(
                f"Waited {self.patience:g} s for {what}, in vain. Give the machine to this "
                "program alone, or more time with --patience."
            ) from None

    def open(self) -> float:
        """A fresh page. Seconds from Gradio's own first paint to the finished comparison."""
        if self.page is not None:
            self.page.close()
        page = self.page = self._browser.new_page(viewport={"width": 1440, "height": 900})
        page.set_default_timeout(1000 * self.patience)
        self.waited("the page to load", lambda: page.goto(self.url))
        self.waited("the finished comparison", lambda: page.wait_for_function(_FINISHED))
        return float(page.evaluate(_SINCE_FIRST_PAINT))

    def ask(self, answers: bool = True) -> tuple[float, float]:
        """Asks about a scene never seen. Seconds from the press to the pictures, to the answers.

        Pressed `TYPING` seconds after the upload.

        answers: whether there are any; without, the second figure is until Ask comes back.
        """
        from spare_demo.ui.examples import new_scene

        page = self.page
        with tempfile.TemporaryDirectory() as folder:
            scene = new_scene(Path(folder))
            self.waited("the old picture to go", page.get_by_label("Remove Image").click)
            page.locator("#picture input[type=file]").set_input_files(scene.path)
            shown = page.locator("#picture .image-frame img")
            self.waited("the uploaded picture", shown.wait_for)
        page.locator("#question textarea").fill(scene.question)
        page.wait_for_timeout(1000 * TYPING)
        old = page.evaluate("SPARE.state.data.key")
        self.waited("Ask to be free", page.locator("#ask").wait_for)
        start = time.perf_counter()
        page.locator("#ask").click()
        changed = "old => SPARE.state.data.key !== old"
        self.waited(
            "the pictures after Ask",
            lambda: page.wait_for_function(changed, arg=old, polling=10),
        )
        pictures = time.perf_counter() - start
        if answers:
            self.waited(
                "the three answers after Ask",
                lambda: page.wait_for_function(_ANSWERED, polling=10),
            )
            all_answers = time.perf_counter() - start
        self.waited("Ask to come back", page.locator("#ask").wait_for)
        return pictures, all_answers if answers else time.perf_counter() - start

    def enlarge(self) -> None:
        """Puts a made-up comparison of 2,880 tokens into the viewer."""
        self.page.evaluate(_LARGE)

    def scrub(self, layer: str, budgets: int) -> tuple[list[float], list[float], str]:
        """Scrubs through a layer.

        Args:
            budgets: how many, from 1 to all tokens, one per frame.

        Returns:
            seconds from frame to frame; seconds from a frame's begin until the page had drawn;
            and a remark where time ran out before the last budget.
        """
        found = self.page.evaluate(_SCRUB, [layer, budgets, self.patience])
        if found["trouble"] or not found["between"]:
            raise Overdue(f"The browser drew no frame for 10 s while {layer} was scrubbed.")
        done, steps = len(found["between"]), found["steps"]
        remark = "" if done >= steps else f"{done} of {steps} frames in {self.patience:g} s"
        return found["between"], found["drawn"], remark

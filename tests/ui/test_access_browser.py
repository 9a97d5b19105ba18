"""The page for everyone: axe-core's checks, three widths, both themes, keyboard, calm."""

from __future__ import annotations

import itertools
from importlib.resources import files

import browsing
import pytest

axe = pytest.importorskip("axe_playwright_python", reason="axe-playwright-python is not installed")
expect = browsing.expect

pytestmark = browsing.MARKS

AXE = files(axe.__name__).joinpath("axe.min.js")


def grave(page, part: str = "html") -> list[str]:
    """Serious and critical findings in a part of the page, one line each."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    found = page.evaluate("part => axe.run(part, {resultTypes: ['violations']})", part)
    return [
        f"{v['id']}: {node['html'][:120]} {node['failureSummary'][:160]}"
        for v in found["violations"]
        if v["impact"] in ("serious", "critical")
        for node in v["nodes"]
    ]


_CONTRAST = """(control) => {
    const channel = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
    const light = (colour) => colour.match(/\\d+/g).slice(0, 3).reduce(
        (sum, c, i) => sum + [0.2126, 0.7152, 0.0722][i] * channel(c / 255), 0.05);
    const {borderColor, backgroundColor, stroke} = getComputedStyle(control);
    const [colour, ground] = stroke === 'none' ? [borderColor, backgroundColor]
        : [stroke, getComputedStyle(control.closest('.block')).backgroundColor];
    const [dark, bright] = [light(colour), light(ground)].sort((a, b) => a - b);
    return bright / dark;
}"""


@pytest.mark.parametrize(
    ("width", "theme"),
    [
        (1440, "light"),
        (390, "dark"),
        pytest.param(1440, "dark", marks=pytest.mark.long),
        pytest.param(390, "light", marks=pytest.mark.long),
    ],
)
def test_axe_finds_nothing_serious_and_bars_are_of_the_theme(
    open_window, served, theme: str, width: int
) -> None:
    visitor = open_window(
        f"{served.url}/?__theme={theme}",
        viewport={"width": width, "height": 900},
        color_scheme=theme,
        reduced_motion="reduce",
        locale="de-DE",
    )
    page = visitor.page
    expect(visitor.find(":root")).to_have_attribute("lang", "en")  # as its words are
    expect(page.get_by_label("Drop an image file here to upload")).to_be_attached()
    # Of scroll bars, and of the arrows of a number.
    expect(visitor.find(":root")).to_have_css("color-scheme", {"light": "normal"}.get(theme, theme))

    visitor.find(".stories summary").click()
    assert grave(page) == []
    visitor.find("[data-story=relevance]").click()
    expect(visitor.find(".story-card .text")).to_contain_text("cosine")
    visitor.find(".masthead .term").hover()
    expect(visitor.find("#term-tip")).to_be_visible()
    assert grave(page) == []
    assert visitor.wide() == (width, width)
    visitor.find(".story-card .close").click()
    page.keyboard.press("Escape")  # no patch is marked any more

    visitor.layer("own")
    visitor.find("[data-start=a]").click()
    visitor.point(100)
    visitor.find("#settings button").first.click()
    for choice in ("#settings [type=radio]:not(:checked)", "#guess-first input"):
        assert visitor.find(choice).first.evaluate(_CONTRAST) >= 3  # WCAG 1.4.11
    # Until its library is there, Gradio's plot is an empty box that axe does not like.
    lines = visitor.curve().locator(".xy .js-line[style*='width: 2.5px']")
    assert all(line.evaluate(_CONTRAST) >= 3 for line in lines.all()) and lines.count() == 2
    name = visitor.find("#curve-words").inner_text()
    expect(visitor.find("#curve .js-plotly-plot")).to_have_accessible_name(name)
    for layer in ("difference", "relevance", "order", "all"):
        visitor.layer(layer)
        assert grave(page, "#stage") == []  # nothing else changes with them
    visitor.layer("own")  # which shows what draws a set in the budget's place
    assert grave(page) == []
    visitor.layer("difference")
    visitor.find("#budget input[type=number]").fill("100")  # the answers are of another budget
    expect(visitor.find(".stale-note")).to_be_visible()
    assert grave(page) == []
    visitor.find("#question textarea").fill("And now?")  # and all of it is of another question
    expect(visitor.find("body.asked-anew")).to_be_attached()
    assert grave(page) == []


def test_axe_finds_nothing_serious_in_what_is_folded_away(visitor) -> None:
    merging = "document.body.classList.toggle('merging')"  # as of a method that merges
    visitor.page.evaluate(merging)
    for name in ("against", "all-methods", "keep", "terms", "merged"):
        visitor.unfold(name)
    faults = grave(visitor.page)
    visitor.page.evaluate(merging)
    visitor.page.get_by_role("tab", name="Lab").click()
    faults += grave(visitor.page, "#lab")
    visitor.page.get_by_role("tab", name="Compare").click()
    assert faults == []


def test_a_title_says_whether_its_part_is_folded_away(reader) -> None:
    titles = reader.find("#settings > button, #another-model > button, .fold > button")
    open_ = "all => all.map(title => title.getAttribute('aria-expanded'))"
    before = titles.evaluate_all(open_)
    assert len(before) > 8 and set(before) == {"false"}
    title = reader.unfold("terms").locator("> button")
    expect(title).to_have_attribute("aria-expanded", "true")
    title.click()
    expect(title).to_have_attribute("aria-expanded", "false")


def test_a_screen_reader_is_told_what_the_marks_of_the_slider_are(reader) -> None:
    marks = reader.page.get_by_role("group", name="Tokens kept").get_by_role("button")
    expect(marks).to_have_text(["32", "64", "128", "192"])


def test_the_ring_of_a_title_is_seen_whole(reader) -> None:
    reader.find("#further button").last.focus()
    reader.page.keyboard.press("Tab")
    reader.page.keyboard.press("Tab")
    assert reader.page.evaluate("document.activeElement.parentElement.id") == "lost"
    # How far the ring lies inside the box that cuts off what is beyond it, and the words inside the
    # ring.
    room = reader.page.evaluate("""() => {
        const title = document.activeElement, style = getComputedStyle(title);
        const ring = parseFloat(style.outlineWidth) + parseFloat(style.outlineOffset);
        const box = title.parentElement, edge = box.getBoundingClientRect();
        const {top, left} = title.getBoundingClientRect();
        const words = title.firstElementChild.getBoundingClientRect();
        return [top - ring - edge.top - box.clientTop, left - ring - edge.left - box.clientLeft,
                words.left - left + parseFloat(style.outlineOffset)];
    }""")
    assert min(room) >= 0


@pytest.mark.parametrize("width", [1440, 390])
def test_no_box_cuts_off_the_ring_of_a_control(reader, width: int) -> None:
    reader.page.set_viewport_size({"width": width, "height": 900})
    reader.page.keyboard.press("Tab")  # a ring is only for those who use the keyboard
    controls = reader.find("""[role=tab], #picture button:visible, #examples button,
        #budget input""")
    cut = controls.evaluate_all("""controls => controls.filter((control) => {
        control.focus({preventScroll: true});
        const style = getComputedStyle(control), room = control.getBoundingClientRect();
        const ring = parseFloat(style.outlineWidth) + parseFloat(style.outlineOffset);
        let box = control.parentElement;
        while (getComputedStyle(box).overflow === 'visible') box = box.parentElement;
        const edge = box.getBoundingClientRect();
        return Math.max(edge.top - room.top, edge.left - room.left, room.right - edge.right,
                        room.bottom - edge.bottom) + ring > 2;
    }).map((control) => control.outerHTML)""")
    assert controls.count() > 10
    assert cut == []


def test_the_slider_of_a_narrow_page_does_not_push_the_box_above_it_out_of_sight(reader) -> None:
    reader.page.set_viewport_size({"width": 390, "height": 700})
    reader.find("#budget input[type=number]").focus()
    reader.page.keyboard.press("Tab")
    expect(reader.find("#budget input[type=range]")).to_be_focused()
    assert reader.find("#budget").evaluate("box => box.scrollTop") == 0


def test_a_screen_reader_is_told_whose_picture_it_is_on(reader) -> None:
    for title in ("All visual tokens", "A SPARE", "B CDPruner"):
        expect(reader.page.get_by_role("figure", name=title, exact=True)).to_be_visible()


def test_a_screen_reader_is_told_what_is_in_a_set_made_by_hand(reader) -> None:
    reader.layer("own")
    reader.find("[data-start=none]").click()
    board, spoken = reader.find("#stage .board").first, reader.find("#reason .spoken")
    board.press("ArrowDown")
    expect(spoken).to_contain_text(", not in your set.")
    board.press("Space")
    expect(spoken).to_contain_text(", in your set.")


def test_the_systems_colours_leave_buttons_slider_and_choices_in_sight(open_window, served) -> None:
    visitor = open_window(served.url, forced_colors="active")
    buttons = visitor.find(":is(#actions, #marks, #further) button:visible")
    borders = buttons.evaluate_all(
        "all => all.map(b => parseFloat(getComputedStyle(b).borderWidth))"
    )
    assert len(borders) == 11 and min(borders) >= 1
    # Drawn by the system: Gradio's mark in a box is white, and so may the box be.
    drawn = visitor.find("#budget input[type=range], #lab-budgets input")
    visitor.page.get_by_role("tab", name="Lab").click()
    expect(drawn).to_have_count(6)
    looks = drawn.evaluate_all("all => all.map(e => getComputedStyle(e).appearance)")
    assert set(looks) == {"auto"}
    visitor.page.get_by_role("tab", name="Compare").click()
    ground = "input => getComputedStyle(input.closest('label')).backgroundColor"
    chosen, other = (
        visitor.find(f"#stage input[name=layer][value={name}]").evaluate(ground)
        for name in ("kept", "order")
    )
    assert chosen != other


def test_who_asks_on_the_keyboard_stays_on_the_button(reader) -> None:
    reader.find("#question textarea").fill("How many objects are there?")
    reader.find("#ask").press("Enter")
    reader.expect_answers(576, 64, 64)
    expect(reader.find("#ask")).to_be_focused()


def test_a_screen_reader_is_told_that_it_is_done(reader) -> None:
    heard = "window.heard"
    reader.page.evaluate(
        """() => {
          window.heard = [];
          new MutationObserver((changes) => {
            for (const {target} of changes) window.heard.push(target.textContent.trim());
          }).observe(document.querySelector('.sr-only[aria-live]'),
            {childList: true, characterData: true, subtree: true});
        }"""
    )
    reader.find("#ask").click()
    reader.page.wait_for_function(f"{heard}.includes('Done.')")
    assert not any("common." in words for words in reader.page.evaluate(heard))


def test_nothing_scrolls_sideways_whatever_is_open(reader) -> None:
    reader.layer("own")
    reader.find("[data-start=both]").click()
    reader.point(40)
    layers = ("order", "relevance", "all", "own")
    for width, layer in itertools.product((1440, 1024, 390), layers):
        reader.page.set_viewport_size({"width": width, "height": 844})
        reader.layer(layer)
        assert reader.wide() == (width, width)
    assert reader.find("#stage").bounding_box()["width"] >= 320


def test_nothing_cuts_a_control_of_a_narrow_page_with_spaced_letters(reader) -> None:
    """The spacing of WCAG 1.4.12 at the width of 1.4.10."""
    reader.page.set_viewport_size({"width": 320, "height": 800})
    spacing = "* { letter-spacing: 0.12em !important; word-spacing: 0.16em !important; }"
    spacing += "#find-disagreement { overflow-wrap: normal !important; }"  # with its words whole
    style = reader.page.add_style_tag(content=spacing)
    box = reader.find("#budget input[type=number]").bounding_box()
    assert box["x"] + box["width"] <= 320
    find = reader.find("#find-disagreement")
    assert find.evaluate("button => button.scrollWidth <= button.clientWidth")
    style.evaluate("element => element.remove()")

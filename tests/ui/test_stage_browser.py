"""The first screen and the stage: what is in sight, what stays in place, what goes away again."""

from __future__ import annotations

import itertools
import math
import time

import pytest
from browsing import MARKS, Visitor, expect

from spare_demo.ui.visit import Visit

pytestmark = MARKS

SIZES = [(1440, 900), (1366, 768), (1024, 768)]
LAYERS = ("kept", "order", "relevance", "difference", "weight", "leftover")


def boxes(visitor: Visitor, selector: str) -> list[dict[str, float]]:
    found = visitor.find(f"{selector}:visible").all()
    return [box for box in (part.bounding_box() for part in found) if box]


def bottom(box: dict[str, float]) -> float:
    return box["y"] + box["height"]


def test_the_first_screen_tells_the_whole_comparison(reader) -> None:
    parts = {
        "#headline": 1, "#budget input[type=range]": 1, "#stage .board": 3,
        "#answers .answer-text": 3, "#further button": 4, "#methods input": 2, "#reason h2": 1,
    }  # fmt: skip
    for selector, count in parts.items():
        found = boxes(reader, selector)
        assert len(found) == count, selector
        assert all(box["y"] >= 0 and bottom(box) <= 900 for box in found), selector
    widths = {round(box["width"]) for box in boxes(reader, "#stage .board")}
    assert len(widths) == 1 and widths.pop() >= 300


def test_the_slider_is_in_sight_and_names_stand_beside_their_arrows_at_any_width(reader) -> None:
    for width in (1440, 1024, 834, 768, 721, 390):
        reader.page.set_viewport_size({"width": width, "height": 900})
        seen = reader.find("#budget input[type=range]").evaluate(
            """slider => {
                slider.scrollIntoView({block: 'center'});
                const {x, y, width, height} = slider.getBoundingClientRect();
                return width >= 140 && [2, width - 2].every(
                    from => document.elementFromPoint(x + from, y + height / 2) === slider);
            }"""
        )
        assert seen, width
        apart = reader.find("#methods .secondary-wrap").evaluate_all(
            """all => all.map(menu => {
                const input = menu.querySelector('input'), arrow = menu.querySelector('.icon-wrap');
                return arrow.getBoundingClientRect().x
                    - (input.getBoundingClientRect().right
                       - parseFloat(getComputedStyle(input).paddingRight));
            })"""
        )
        assert len(apart) == 2 and min(apart) >= 0, width


@pytest.mark.long
def test_nothing_moves_when_another_layer_is_shown(reader) -> None:
    for width, height in SIZES:
        reader.page.set_viewport_size({"width": width, "height": height})
        places = []
        for layer in LAYERS:
            reader.choose("layer", layer)
            reader.page.wait_for_timeout(150)  # the words come at most ten times a second
            [slider] = boxes(reader, "#budget input[type=range]")
            assert bottom(slider) <= height
            stage = boxes(reader, "#stage .board") + boxes(reader, "#answers .card")
            places.append([(round(b["x"]), round(b["y"]), round(b["width"])) for b in stage])
        if (width, height) == SIZES[0]:
            assert all(place == places[0] for place in places)
        assert all(place[:3] == places[0][:3] for place in places)  # the pictures, at any size


@pytest.mark.long
def test_one_picture_is_a_click_away_and_so_is_the_way_back(reader) -> None:
    reader.find("#stage .title").nth(2).click()
    expect(reader.find("#stage .board:visible")).to_have_count(1)
    expect(reader.caption).to_contain_text("B CDPruner kept 64 of 576")
    [large] = boxes(reader, "#stage .board")
    assert large["width"] > 400
    reader.find("#stage .title:visible").click()
    expect(reader.find("#stage .board:visible")).to_have_count(3)


@pytest.mark.long
def test_a_layer_is_chosen_from_the_menu_of_rarer_ones(reader) -> None:
    menu = reader.find("#stage .more summary")
    menu.click()
    reader.page.get_by_text("Leftover", exact=True).click()
    expect(menu).to_have_text("Leftover")
    expect(reader.caption).to_contain_text("cannot reconstruct")
    menu.click()
    reader.page.keyboard.press("Escape")
    expect(reader.find("#stage .more label").first).to_be_hidden()
    reader.find(".layers label").first.click()
    expect(menu).to_have_text("More")


def marked(visitor: Visitor, pane: int) -> bool:
    """Whether anything is drawn above a picture."""
    return (
        visitor.find("#stage canvas.over")
        .nth(pane)
        .evaluate(
            """over => over.getContext('2d').getImageData(0, 0, over.width, over.height)
        .data.some(value => value > 0)"""
        )
    )


def test_what_the_pointer_marks_goes_when_it_leaves_unless_it_is_held(reader) -> None:
    over = reader.find("#stage canvas.over").first
    reader.point(200)
    assert all(marked(reader, pane) for pane in range(3))  # one cursor on all three
    reader.page.mouse.move(5, 5)
    assert not any(marked(reader, pane) for pane in range(3))
    expect(reader.find(".reasons")).to_contain_text("index 200")  # the words stay
    reader.point(201)
    over.click(position={"x": 40, "y": 40})  # held
    held = reader.page.evaluate("SPARE.state.cursor")
    reader.page.mouse.move(5, 5)
    assert marked(reader, 1)
    box = over.bounding_box()
    assert box
    reader.page.mouse.move(box["x"] + 200, box["y"] + 200)
    assert reader.page.evaluate("SPARE.state.cursor") == held
    reader.page.keyboard.press("Escape")
    assert not any(marked(reader, pane) for pane in range(3))


@pytest.mark.long
def test_other_methods_take_away_what_is_marked(visitor) -> None:
    board = visitor.find("#stage .board").first
    board.focus()
    board.press("ArrowRight")
    assert marked(visitor, 0)
    visitor.choose_method("b", "Random")
    expect(visitor.caption).to_contain_text("B Random")
    assert not marked(visitor, 0)


def test_the_arrows_say_one_short_sentence(reader) -> None:
    board = reader.find("#stage .board").first
    board.focus()
    board.press("Home")
    board.press("PageUp")
    said = reader.find("#reason [role=status]")
    expect(said).to_contain_text("row 1, column 1, A ")
    assert len(said.inner_text()) < 60
    assert reader.find("#reason .reasons").get_attribute("aria-live") is None


def test_the_slider_says_of_a_patch_only_what_changes(reader) -> None:
    lost = reader.page.evaluate("""() => {
        const kept = ['A', 'B'].flatMap(slot => [...SPARE.state.data.picks(slot, 90).order]);
        return [...Array(576).keys()].find(token => !kept.includes(token));
    }""")
    reader.point(lost)
    said = reader.find("#reason [role=status]")
    expect(said).to_contain_text("A not kept, B not kept")
    said.evaluate("""said => {
        window.writings = [];
        const observer = new MutationObserver(() => writings.push(said.textContent));
        observer.observe(said, {childList: true, characterData: true, subtree: true});
    }""")
    for budget in (70, 80, 90, 576):
        reader.page.evaluate(
            "k => { SPARE.setBudget(k); return new Promise(done => requestAnimationFrame(() => "
            "requestAnimationFrame(() => requestAnimationFrame(done)))) }",
            budget,
        )
    expect(said).to_contain_text("A pick")
    assert reader.page.evaluate("writings.length") == 1


def test_a_patch_is_explained_in_one_sentence_first(reader) -> None:
    picks = reader.page.evaluate("[...SPARE.state.data.picks('A', 64).order]")
    reader.point(picks[3])
    first = reader.find(".reason.a p").first
    expect(first).to_have_text("Kept: at pick 4 no other patch had a larger product.")
    lost = next(token for token in range(576) if token not in picks)
    reader.point(lost)
    expect(first).to_contain_text("Not kept: its ")
    told = reader.page.evaluate(
        """lost => {
        const {data, k} = SPARE.state, residual = data.residual('A', k), at = k - 1;
        const {factors} = data.slots.A, winner = data.picks('A', k).order[at];
        const of = token => [residual.share(at)[token], factors.magnitude?.[token] ?? 1,
                             factors.text[token]];
        const [own, won] = [of(lost), of(winner)];
        const shares = own.map((value, i) => value / won[i]);
        return ['novelty', 'magnitude', 'text weight'][shares.indexOf(Math.min(...shares))];
    }""",
        lost,
    )
    expect(first).to_contain_text(f"its {told} is")


def test_the_caption_gives_the_reasons_while_a_patch_is_marked(reader) -> None:
    words, answers = reader.caption.inner_text(), reader.find("#answers").bounding_box()
    for shown in ("all", "A"):
        reader.layer(shown)
        reader.point(200)
        caption = reader.find("#stage .caption")
        expect(caption).to_be_in_viewport()
        for slot in "ab":
            expect(caption).to_contain_text(reader.find(f".reason.{slot} .verdict").inner_text())
        reader.page.mouse.move(5, 5)
        expect(reader.caption).not_to_contain_text("its ")
    reader.layer("all")
    expect(caption).to_have_text(words)
    assert reader.find("#answers").bounding_box() == answers


def test_a_factor_of_practically_nothing_is_compared_in_plain_words(reader, opened: Visit) -> None:
    reader.point(int(opened.exploration.weights["B"].argmin()))
    expect(reader.find(".reason.b .verdict")).to_contain_text(
        "its squared text weight is more than 1,000 times smaller than that of the patch"
    )


def test_a_weight_that_enters_squared_is_called_so(reader) -> None:
    """The number beside the layer Weight's would be another one of the same name."""
    reader.point(30)
    for slot, label, power in (("a", "× text weight", 1), ("b", "× text weight²", 2)):
        row = reader.find(f".reason.{slot} .factors tr").nth(2)
        expect(row.locator("th")).to_have_text(label)
        weight = reader.page.evaluate(f"SPARE.state.data.slots.{slot.upper()}.weight[30]")
        shown = float(row.locator("td").last.inner_text())
        assert shown == pytest.approx(weight**power, rel=0.01)


def test_few_stops_of_the_tab_key_lead_to_the_answers(reader) -> None:
    reader.page.evaluate("document.activeElement.blur()")
    stops = 0
    for _ in range(40):
        reader.page.keyboard.press("Tab")
        if reader.page.evaluate("document.activeElement.closest('#answers') !== null"):
            break
        stops += 1
        assert reader.page.evaluate("document.activeElement !== document.body")  # never lost
    else:
        pytest.fail("The answers were not reached.")
    assert stops <= 25


@pytest.mark.long
def test_headings_do_not_skip_a_level(reader) -> None:
    reader.point(30)
    for name in ("lost", "price", "against", "keep"):
        reader.unfold(name)
    levels = reader.page.evaluate(
        """[...document.querySelectorAll('h1, h2, h3, h4')]
        .filter(h => h.getClientRects().length).map(h => Number(h.tagName[1]))"""
    )
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))
    focusable = reader.find(".modebar :is(a, button)").evaluate_all(
        "all => all.filter(part => part.getClientRects().length && part.tabIndex >= 0).length"
    )
    assert focusable == 0


@pytest.fixture(scope="module")
def phone(browser, served):
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    yield Visitor(context.new_page()).open(served.url)
    context.close()


def test_a_phone_is_short_and_its_targets_are_large(phone) -> None:
    assert phone.page.evaluate("document.documentElement.scrollHeight") <= 3500
    assert small_targets(phone) == []


def test_a_phone_zooms_by_two_fingers_alone(phone) -> None:
    """An iPhone zooms in on fields of letters below 16 px, and on what is tapped twice."""
    fields = phone.find("textarea, input[type=number], input[type=text], input[role=combobox]")
    sizes = fields.evaluate_all(
        "all => all.map(field => parseFloat(getComputedStyle(field).fontSize))"
    )
    assert min(sizes) >= 16
    taps = phone.find("#tabs :is(button, summary, label):visible").evaluate_all(
        "all => all.map(part => getComputedStyle(part).touchAction)"
    )
    assert set(taps) == {"manipulation"}
    adjusted = "getComputedStyle(document.documentElement).webkitTextSizeAdjust"
    assert phone.page.evaluate(adjusted) == "100%"


@pytest.mark.parametrize(
    ("width", "grid", "part", "column"),
    [(768, "#story", "#asked", 0), (390, "#actions", "#find-disagreement", 2)],
)
def test_no_part_outgrows_its_column(phone, width: int, grid: str, part: str, column: int) -> None:
    phone.page.set_viewport_size({"width": width, "height": 1024})
    least = phone.find(part).evaluate(
        "part => parseFloat(part.style.minWidth.slice('min('.length))"
    )
    columns = phone.find(grid).evaluate("grid => getComputedStyle(grid).gridTemplateColumns")
    # Some browsers take min(280px, 100%) for 280px in a grid.
    assert least <= float(columns.split("px")[column])


def test_a_double_line_has_room_for_the_gap(reader) -> None:
    """Safari rounds a third of its width up, for the lines on both sides."""
    widths = reader.page.evaluate("""[...document.querySelectorAll('*')].flatMap((part) => {
        const style = getComputedStyle(part);
        return ['Top', 'Bottom', 'Left'].filter((side) => style[`border${side}Style`] === 'double')
            .map((side) => parseFloat(style[`border${side}Width`]));
    })""")
    assert widths and all(2 * math.ceil(width / 3) < width for width in widths)


def test_the_words_about_the_camera_stand_above_the_ways_to_bring_a_picture(visitor) -> None:
    visitor.find("#picture [aria-label='Remove Image']").click()
    camera = visitor.find("#picture [aria-label='Capture from camera']")
    camera.click()
    words = visitor.find("#picture").get_by_text("Click to Access Webcam")
    assert words.evaluate(
        """(part) => {
            const text = document.createRange();
            text.selectNodeContents(part);
            return text.getBoundingClientRect().bottom;
        }"""
    ) <= camera.evaluate("button => button.getBoundingClientRect().top")


@pytest.mark.parametrize(("width", "height"), [(844, 390), (768, 1024)])
def test_targets_are_large_wherever_fingers_are_used(phone, width: int, height: int) -> None:
    phone.page.set_viewport_size({"width": width, "height": height})
    folds = ("settings", "keep", "changes", "all-methods", "against", "merged")
    merging = "document.body.classList.toggle('merging')"  # as of a method that merges
    phone.page.evaluate(merging)
    for fold in folds:
        phone.unfold(fold)
    phone.find("#method-a input").click()
    expect(phone.find("[role=option]:visible").first).to_be_visible()
    small = small_targets(phone)
    phone.page.keyboard.press("Escape")
    for fold in folds:
        phone.find(f"#{fold} > .label-wrap").click()
    phone.page.evaluate(merging)
    assert small == [] and phone.wide() == (width, width)
    phone.page.get_by_role("tab", name="Lab").click()
    expect(phone.find("#lab-methods .token").first).to_be_visible()
    small = small_targets(phone)
    phone.page.get_by_role("tab", name="Compare").click()
    assert small == []
    phone.page.set_viewport_size({"width": 390, "height": 844})


def small_targets(visitor: Visitor) -> list[str]:
    """What a finger hits badly."""
    return visitor.find(  # type: ignore[no-any-return]
        ":is(main :is(button, summary, [type=number], label:has([type=radio], [type=checkbox])),"
        " .token-remove, #budget input, [role=option]):visible"
    ).evaluate_all(
        """all => all.filter(part => {
            const {width, height} = part.getBoundingClientRect();
            return height < 43.5 && width > 1 && !part.closest('.visually-hidden');
        }).map(part => part.outerHTML.slice(0, 80))"""
    )


def test_a_phone_opens_with_ask_in_sight_and_the_questions_to_choose_from_below(phone) -> None:
    phone.page.evaluate("scrollTo(0, 0)")
    [ask], [chips] = boxes(phone, "#ask"), boxes(phone, "#chips")
    assert bottom(ask) <= 844
    assert bottom(ask) <= chips["y"]


def test_a_phone_shows_the_picture_to_draw_on_and_says_nothing_of_keys(phone) -> None:
    phone.find("#by-hand").tap()
    expect(phone.find("#stage .board").first).to_be_in_viewport(ratio=1)
    expect(phone.find("#edit .again")).to_be_in_viewport(ratio=1)
    expect(phone.find("#edit .note")).to_be_visible()
    expect(phone.find("#edit .by-mouse")).to_be_hidden()
    phone.choose("layer", "kept")


def test_a_tapped_patch_is_explained_beside_its_picture(phone) -> None:
    sheet, board = phone.find("#reason"), phone.find("#stage .board").first
    expect(sheet).to_be_hidden()
    phone.page.evaluate(  # its lower part would lie below the sheet
        "document.querySelector('#stage .board').scrollIntoView({block: 'end'})"
    )
    board.tap(position={"x": 100, "y": 60})
    expect(sheet).to_be_in_viewport()
    expect(sheet).to_contain_text("Patch row")
    patch = phone.page.evaluate(
        """() => {
        const {data, cursor} = SPARE.state, over = document.querySelector('#stage canvas.over');
        const box = over.getBoundingClientRect(), scale = box.height / data.grid.height;
        return box.y + (data.grid.y + (data.place(cursor).row + .5) * data.grid.patch) * scale;
    }"""
    )
    [shown] = boxes(phone, "#reason")
    assert 0 < patch < shown["y"]
    phone.find(".sheet-close").press("Enter")
    expect(sheet).to_be_hidden()
    expect(board).to_be_focused()  # not lost with the button that is gone
    assert not marked(phone, 0)
    assert "Tap a patch" not in sheet.inner_text()


@pytest.mark.parametrize(("width", "height"), [(844, 390), (1024, 768)])
def test_a_patch_tapped_on_a_wide_screen_is_told_in_sight(phone, width: int, height: int) -> None:
    phone.page.set_viewport_size({"width": width, "height": height})
    sheet = phone.find("#reason")
    expect(sheet).to_be_hidden()
    phone.find("#stage .board").first.tap(position={"x": 60, "y": 60})
    expect(sheet).to_be_in_viewport()
    expect(sheet).to_contain_text("Patch row")
    phone.page.evaluate("scrollTo(0, document.documentElement.scrollHeight)")
    last = phone.find("#gallery > button").bounding_box()
    assert last["y"] + last["height"] <= sheet.bounding_box()["y"]  # it hides nothing for good
    phone.find("#lost > button").evaluate(
        "title => scrollBy(0, title.getBoundingClientRect().bottom - innerHeight)"
    )
    phone.find("#lost > button").focus()
    held = phone.find("#lost > button").bounding_box()
    assert held["y"] + held["height"] <= sheet.bounding_box()["y"]  # nor what has the focus
    phone.find(".sheet-close").tap()
    expect(sheet).to_be_hidden()
    phone.page.set_viewport_size({"width": 390, "height": 844})


def test_marks_of_the_least_budgets_lie_one_below_the_other_on_a_phone(phone) -> None:
    phone.page.evaluate("SPARE.emit('reply', {kind: 'marks', marks: {A: 26, B: 27}})")
    a, b = boxes(phone, ".enough-marks button")
    [number, below] = boxes(phone, "#budget .tab-like-container, #marks")
    phone.page.evaluate("document.querySelector('.enough-marks').replaceChildren()")
    assert bottom(number) <= a["y"] and bottom(a) <= b["y"] and bottom(b) <= below["y"]


def test_names_in_the_table_of_costs_are_whole_on_a_phone(phone) -> None:
    phone.page.set_viewport_size({"width": 360, "height": 640})
    table = phone.unfold("price").locator("table.stages")
    cut_off = table.locator("th").evaluate_all(
        "all => all.filter(cell => cell.scrollWidth > cell.clientWidth).map(cell => cell.innerText)"
    )
    phone.find("#price > .label-wrap").click()
    phone.page.set_viewport_size({"width": 390, "height": 844})
    assert cut_off == []


def test_numbers_below_the_curve_stand_apart_on_a_phone(phone) -> None:
    phone.page.set_viewport_size({"width": 360, "height": 640})
    phone.curve()
    phone.page.wait_for_function(
        "document.querySelector('#curve .main-svg').getBoundingClientRect().right <= innerWidth"
    )
    shown = sorted(boxes(phone, "#curve .xtick text"), key=lambda box: box["x"])
    phone.find("#lost > .label-wrap").click()
    phone.page.set_viewport_size({"width": 390, "height": 844})
    assert len(shown) >= 4
    for left, right in itertools.pairwise(shown):
        assert left["x"] + left["width"] + 4 <= right["x"]


# Sideways past the middle of a picture, from where it comes to rest at the next one.
@pytest.mark.parametrize(("right", "down"), [(0, -150), (-230, 0)])
def test_a_finger_that_moves_on_a_picture_scrolls_and_explains_no_patch(
    phone, right: int, down: int
) -> None:
    where = "[document.querySelector('.panes').scrollLeft, scrollY]"
    phone.page.evaluate("document.querySelector('#stage .board').scrollIntoView({block: 'end'})")
    left, top = phone.page.evaluate(where)
    [board, *_] = boxes(phone, "#stage .board")
    fingers = phone.page.context.new_cdp_session(phone.page)
    begun = time.time() - 1
    for step in range(16):  # resting at last: how far a finger in motion throws hangs on its speed
        share = min(step, 11) / 10
        place = {"x": board["x"] + 300 + right * share, "y": board["y"] + 200 + down * share}
        kind = "touchMove" if step else "touchStart"
        moved = {"type": kind, "touchPoints": [place], "timestamp": begun + 0.05 * step}
        fingers.send("Input.dispatchTouchEvent", moved)
    fingers.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    phone.page.wait_for_timeout(500)
    expect(phone.find("#reason")).to_be_hidden()
    swiped, scrolled = phone.page.evaluate(where)
    assert (swiped - left > 100, scrolled - top > 100) == (right < 0, down < 0)
    assert scrolled - top < 300


@pytest.mark.long
def test_a_phone_shows_the_answers_after_ask(phone) -> None:
    phone.find("#question textarea").fill("How many arrows are there?")
    phone.find("#ask").tap()
    phone.expect_answers(576, 64, 64)
    for i in range(3):
        expect(phone.find("#answers .card").nth(i)).to_be_in_viewport()


def test_a_phone_shows_the_answers_after_a_question_is_tapped(phone) -> None:
    phone.find("#chips .chip").first.tap()
    phone.expect_answers(576, 64, 64)
    for i in range(3):
        expect(phone.find("#answers .card").nth(i)).to_be_in_viewport()


@pytest.mark.long
def test_older_links_open_the_picture_that_they_name(open_window, served) -> None:
    for query, words in (
        ("show=B", "B CDPruner kept 30"),
        ("show=order&of=B", "B CDPruner picked 30"),
        ("show=all", "in common"),
        ("show=difference&of=A", "in common"),
    ):
        visitor = open_window(f"{served.url}/?scene=scene-1001.png&k=30&{query}")
        expect(visitor.find("#stage .board:visible")).to_have_count(3 if "all" in query else 1)
        expect(visitor.caption).to_contain_text(words)
        visitor.check()

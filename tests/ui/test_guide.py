"""A visit's steps without a browser: what is run again, kept, refused, and written to files."""

from __future__ import annotations

import copy
import gc
import itertools
import json
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from references import encoded
from visits import QUESTION, answered, page_request, with_result

from spare_demo.comparison.pipeline import compare
from spare_demo.comparison.result import Result
from spare_demo.images.load import PictureError, file_digest
from spare_demo.pruners import PRUNERS
from spare_demo.results.export import command_line
from spare_demo.results.io import write_result
from spare_demo.ui.guide import Guide, methods_by_slot
from spare_demo.ui.open_visits import OpenVisits, VisitKey


def test_another_question_does_not_encode_the_picture_again(guide, passes, photo_file) -> None:
    first = guide.look(page_request(photo_file, QUESTION))
    second = guide.look(page_request(photo_file, "Is the green word above the yellow one?"), first)
    assert passes.looks() == 1
    assert second.exploration.view.picture is first.exploration.view.picture
    assert not np.allclose(second.exploration.view.relevance, first.exploration.view.relevance)


def test_another_method_or_budget_encodes_the_picture_no_more(guide, passes, photo_file) -> None:
    visit = guide.look(page_request(photo_file, QUESTION))
    visit = guide.change_methods(visit, methods_by_slot("spare", "uniform", 0), 0)
    guide.look(page_request(photo_file, QUESTION, "random"), visit)
    for budget in (1, 5, 16):
        visit.exploration.selections(budget)
    assert passes.looks() == 1


def test_the_same_picture_under_another_name_is_not_encoded_again(
    guide, passes, photo_file, tmp_path: Path
) -> None:
    visit = guide.look(page_request(photo_file, QUESTION))
    again = tmp_path / "another name.png"
    again.write_bytes(Path(photo_file).read_bytes())
    guide.look(page_request(str(again), QUESTION), visit)
    assert passes.looks() == 1


def test_another_picture_under_the_same_name_is_encoded(guide, passes, photo_file) -> None:
    visit = guide.look(page_request(photo_file, QUESTION))
    Image.new("RGB", (40, 40), "red").save(photo_file)
    other = guide.look(page_request(photo_file, QUESTION), visit)
    assert passes.looks() == 2
    assert other.exploration.view.picture.photo.size == (40, 40)


def test_another_fit_is_encoded(guide, passes, photo_file) -> None:
    visit = guide.look(page_request(photo_file, QUESTION))
    guide.look(page_request(photo_file, QUESTION, aspect="crop"), visit)
    assert passes.looks() == 2


def test_all_three_are_answered_once_however_often_asked(guide, passes, photo_file) -> None:
    visit = answered(guide, guide.look(page_request(photo_file, QUESTION)))
    counts = {label: answer.visual_tokens for label, answer in visit.result.answers.items()}
    assert counts == {"unpruned": 16, "A": 5, "B": 5}
    assert passes.answers() == 3
    again = answered(guide, visit)
    assert passes.answers() == 3
    assert again.result.answers == visit.result.answers


def test_another_budget_asks_both_methods_again_not_all_tokens(guide, passes, photo_file) -> None:
    visit = answered(guide, guide.look(page_request(photo_file, QUESTION)))
    again = answered(guide, visit, budget=7)
    assert passes.answers() == 5
    assert again.result.answers["unpruned"] is visit.result.answers["unpruned"]
    assert [again.result.answers[slot].visual_tokens for slot in ("A", "B")] == [7, 7]


def test_only_the_slot_with_another_method_is_asked_again(guide, passes, photo_file) -> None:
    visit = answered(guide, guide.look(page_request(photo_file, QUESTION)))
    again = answered(guide, guide.change_methods(visit, methods_by_slot("spare", "uniform", 0), 0))
    assert passes.answers() == 4
    assert again.result.answers["A"] is visit.result.answers["A"]
    assert again.result.answers["B"] is not visit.result.answers["B"]


def test_another_seed_asks_only_what_draws_at_random(guide, passes, photo_file) -> None:
    visit = guide.look(page_request(photo_file, QUESTION, "spare", "random", seed=1))
    visit = answered(guide, visit)
    again = guide.change_methods(visit, methods_by_slot("spare", "random", 2), 2)
    assert set(again.result.answers) == {"unpruned", "A"}


def test_words_of_all_three_come_in_step(guide, photo_file) -> None:
    steps = list(guide.answer(guide.look(page_request(photo_file, QUESTION)), 5))
    assert steps[0].result.partial_text == {"unpruned": "", "A": "", "B": ""}
    assert not steps[0].result.answers
    texts = [step.result.partial_text for step in steps]
    assert any(len(text) == 3 and all(text.values()) for text in texts)
    for before, after in itertools.pairwise(steps):
        for label, text in before.result.partial_text.items():
            answer = after.result.answers.get(label)
            said = answer.text if answer else after.result.partial_text[label]
            assert said.startswith(text)
    assert steps[-1].result.partial_text == {}
    assert list(steps[-1].result.answers) == ["unpruned", "A", "B"]


def test_decoded_as_one_batch_they_say_the_same(guide, photo_file, monkeypatch) -> None:
    visit = guide.look(page_request(photo_file, QUESTION))
    together = answered(guide, visit)
    monkeypatch.setattr("spare_demo.models.generate.together.room", lambda hf: 0)
    alone = answered(guide, visit)
    assert list(together.result.answers) == list(alone.result.answers)
    for label, answer in together.result.answers.items():
        assert answer.token_ids == alone.result.answers[label].token_ids


def test_an_answer_left_half_way_leaves_the_model_free(guide, photo_file) -> None:
    visit = guide.look(page_request(photo_file, QUESTION))
    running = guide.answer(visit, 5)
    next(running)
    next(running)
    running.close()
    assert len(answered(guide, visit).result.answers) == 3


def test_visitors_may_start_from_the_same_visit(guide, photo_file) -> None:
    """Gradio copies a session's first state deeply; a copy of a picture would only cost memory."""
    visit = guide.look(page_request(photo_file, QUESTION))
    assert OpenVisits(1).get(copy.deepcopy(VisitKey(visit))) is visit


def test_without_a_question_the_text_part_is_off_and_said_so(guide, photo_file) -> None:
    visit = guide.look(page_request(photo_file, "  "))
    assert visit.exploration.view.relevance is None
    assert len(visit.exploration.notes) == 2
    assert "SPARE" in visit.exploration.notes[0] and "is off" in visit.exploration.notes[0]
    assert len(answered(guide, visit).result.answers) == 3


@pytest.mark.parametrize("name", [n for n, p in PRUNERS.items() if p.needs_text])
def test_every_method_that_needs_text_runs_or_says_so_without(guide, photo_file, name) -> None:
    request = page_request(photo_file, "", name, "uniform")
    if PRUNERS[name].text_free:
        assert guide.look(request).exploration.notes
    else:
        with pytest.raises(ValueError, match="needs text"):
            guide.look(request)


def test_no_picture_is_a_sentence(guide) -> None:
    with pytest.raises(PictureError, match="no picture yet"):
        guide.look(page_request(None, QUESTION))


def test_an_upload_that_was_tidied_away_is_a_sentence(guide, photo_file) -> None:
    Path(photo_file).unlink()
    with pytest.raises(PictureError, match="Choose it again") as refused:
        guide.look(page_request(photo_file, QUESTION))
    assert photo_file not in str(refused.value)


GRADIENT = encoded(Image.linear_gradient("L"))
BAD_FILES = {
    "text.png": (b"not a picture at all", "not a picture that can be read"),
    "page.svg": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "not a picture that can be read"),
    "empty.png": (b"", "empty"),
    "head.jpg": (b"\xff\xd8\xff\xe0 and no more", "cut off or damaged"),
    "half.png": (GRADIENT[: len(GRADIENT) // 2], "cut off or damaged"),
    "pixels.png": (encoded(Image.new("L", (1000, 301))), "1000 by 301 pixels"),
    "bytes.png": (b"\x89PNG" + bytes(200_001), r"larger than 0\.2 MB"),
}


@pytest.mark.parametrize("name", BAD_FILES)
def test_a_file_that_is_no_picture_or_too_large_is_refused(
    guide, passes, tmp_path: Path, name: str
) -> None:
    content, sentence = BAD_FILES[name]
    (tmp_path / name).write_bytes(content)
    with pytest.raises(PictureError, match=sentence):
        guide.look(page_request(str(tmp_path / name), QUESTION))
    assert passes.looks() == 0


@pytest.mark.parametrize("size", [(1, 1), (1, 500)])
def test_a_picture_of_any_size_works(guide, tmp_path: Path, size: tuple[int, int]) -> None:
    path = tmp_path / "photo.png"
    Image.new("RGB", size, "teal").save(path)
    visit = guide.look(page_request(str(path), QUESTION))
    assert visit.exploration.view.picture.photo.size == size
    assert len(answered(guide, visit).result.answers) == 3


def test_a_question_of_ten_thousand_characters_is_refused(guide, passes, photo_file) -> None:
    with pytest.raises(ValueError, match="10,000 characters; at most 300"):
        guide.look(page_request(photo_file, "why " * 2499 + "why?"))
    assert passes.looks() == 0


def test_an_unknown_method_lists_the_known_ones(guide, photo_file) -> None:
    with pytest.raises(ValueError, match=r"spare.*cdpruner"):
        guide.look(page_request(photo_file, QUESTION, "spare", "sparse"))


def test_a_public_picture_is_encoded_once_for_all_visitors_and_a_private_one_is_not(
    tiny_model, small_settings, passes, photo_file
) -> None:
    public = Guide(tiny_model, small_settings, {file_digest(photo_file)})
    first = public.look(page_request(photo_file, QUESTION))
    again = public.look(page_request(photo_file, QUESTION))
    assert again.exploration.view.picture is first.exploration.view.picture
    assert passes.looks() == 1
    private = Guide(tiny_model, small_settings)
    for _ in range(2):
        private.look(page_request(photo_file, QUESTION))
    assert passes.looks() == 3


def without_times(result: Result) -> dict[str, Any]:
    data: dict[str, Any] = json.loads(write_result(result))
    del data["cost"], data["encode_seconds"], data["relevance_seconds"]
    del data["select_seconds"]
    for item in data["answers"].values():
        del item["prefill_seconds"], item["decode_seconds"]
    return data


def test_a_visit_is_filed_as_the_result_of_its_request(guide: Guide, photo_file: str) -> None:
    same = compare(guide.model, photo_file, "What is red?", budget=5, max_new_tokens=3)
    visit = answered(guide, guide.look(page_request(photo_file, "What is red?")))
    result = visit.result_to_cite()
    assert list(result.selections) == ["spare", "cdpruner"] and result.finished
    assert command_line(result) == command_line(same)
    assert without_times(result) == without_times(same)


def test_a_method_twice_gets_two_names(guide: Guide, photo_file: str) -> None:
    visit = answered(guide, guide.look(page_request(photo_file, "What?", "spare", "spare")))
    result = visit.result_to_cite()
    assert list(result.answers) == ["unpruned", "spare", "spare (2)"]
    assert list(result.selections) == ["spare", "spare (2)"]


def test_nothing_is_filed_before_every_answer_is_there(guide: Guide, photo_file: str) -> None:
    visit = answered(guide, guide.look(page_request(photo_file, "What is red?")))
    unfinished = with_result(visit, answers={"A": visit.result.answers["A"]})
    with pytest.raises(ValueError, match="Not every answer is there yet"):
        unfinished.result_to_cite()


def test_the_visits_used_last_stay_open(guide, photo_file) -> None:
    visits, visit = OpenVisits(2), guide.look(page_request(photo_file, QUESTION))
    first, second = visits.put(visit), visits.put(visit)
    assert visits.get(first) is visit  # used last
    third = visits.put(visit)
    assert visits.find(second) is None
    words = r"closed because .*many others are open, or .*\. Press Ask"
    with pytest.raises(ValueError, match=words):
        visits.get(second)
    assert visits.get(first) is visit and visits.get(third) is visit
    assert copy.deepcopy(first) is first  # Gradio copies what a state begins with
    for value in (None, 7, visit):  # what is no key
        assert visits.get(value) is value and visits.find(value) is value


def test_a_visit_goes_with_its_key_and_frees_what_it_held(guide, photo_file) -> None:
    visits, other = OpenVisits(2), guide.look(page_request(photo_file, "Is it red?"))
    visit = guide.look(page_request(photo_file, QUESTION))
    held, key, kept = weakref.ref(visit.exploration), visits.put(visit), visits.put(other)
    del visit
    gc.collect()
    assert held() is not None
    del key
    gc.collect()
    assert held() is None and visits.get(kept) is other
    first = visits.put(guide.look(page_request(photo_file, QUESTION)))
    held = weakref.ref(visits.get(first).exploration)
    for _ in range(2):
        kept = visits.put(other)
        also_kept = visits.put(other)
    gc.collect()
    assert visits.find(first) is None and held() is None
    assert visits.get(kept) is visits.get(also_kept)

"""A merged row that gets the attention of as many rows as there are tokens in it."""

from __future__ import annotations

import copy
import dataclasses
import math
from typing import Any

import pytest
import torch
from PIL import Image
from stock import answer_all
from torch import Tensor

from spare_demo import PRUNERS, Selection, compare
from spare_demo.analysis.leave_one_out import leave_one_out
from spare_demo.models import Model, View
from spare_demo.models.generate.rows import kept_rows
from spare_demo.pruners.merging import log_sizes

QUESTION = "What colour is the circle?"
SIZES = [1, 1, 4, 3]


def merged(view: View) -> Selection:
    """Two tokens, and two rows that are means of four and of three others."""
    sources = torch.zeros(4, view.tokens.n)
    for row, members in enumerate(([3], [12], [0, 1, 4, 5], [8, 9, 13])):
        sources[row, members] = 1 / len(members)
    features = sources @ view.picture.features.float()
    return Selection([3, 12], features=features, sources=sources, bias=log_sizes(sources))


def copies_run(
    model: Model, view: View, selection: Selection, new: list[int], positions: list[int]
) -> Tensor:
    """(1 + new, vocab) log probabilities of the stock model in float64, given each row as often as
    there are tokens in it, at one position, and all of its copies to everyone from there on.

    positions: of the rows.
    """
    hf = copy.deepcopy(model.hf).double()
    ids = view.input_ids[0]
    places = (ids == hf.config.image_token_id).nonzero().flatten()
    before, after = ids[: int(places[0])], ids[int(places[-1]) + 1 :]
    embed = hf.get_input_embeddings()
    rows, where, group = [embed(before)], [*range(len(before))], [*range(len(before))]
    for row, (size, position) in enumerate(zip(SIZES, positions, strict=True)):
        rows.append(selection.features[row].double().expand(size, -1))
        where += [position] * size
        group += [len(before) + row] * size
    rest = torch.cat([after, torch.tensor(new, dtype=torch.long)])
    rows.append(embed(rest))
    # After packed rows the text follows at once, after original ones where it stood.
    packed = positions == list(range(len(before), len(before) + len(SIZES)))
    start = len(before) + (len(SIZES) if packed else len(places))
    where += range(start, start + len(rest))
    group += range(len(before) + len(SIZES), len(before) + len(SIZES) + len(rest))
    order = torch.tensor(group)
    mask = torch.zeros(len(group), len(group), dtype=torch.float64)
    mask = mask.masked_fill(order[None] > order[:, None], -torch.inf)
    out = hf(
        inputs_embeds=torch.cat(rows)[None],
        attention_mask=mask[None, None],
        position_ids=torch.tensor([where]),
    )
    return out.logits[0, -1 - len(new) :].log_softmax(dim=-1)


def test_the_bias_is_exact_while_another_thread_makes_a_model(
    tiny_model: Model, view: View, request: pytest.FixtureRequest
) -> None:
    selection = merged(view)
    expected = tiny_model.answer(view, selection, 1).first_logits
    request.getfixturevalue("half_by_default")
    assert torch.equal(tiny_model.answer(view, selection, 1).first_logits, expected)


@pytest.mark.parametrize("option", ["compact", "original"])
@torch.inference_mode()
def test_a_row_with_the_log_of_its_size_is_that_many_copies_of_it(
    tiny_model: Model, view: View, option: Any
) -> None:
    selection = merged(view)
    answer = tiny_model.answer(view, selection, 6, option)
    first = int((view.input_ids[0] == tiny_model.hf.config.image_token_id).nonzero()[0])
    places = [3, 12, 0, 8] if option == "original" else range(4)
    own = [first + place for place in places]
    expected = copies_run(tiny_model, view, selection, list(answer.token_ids[:-1]), own)
    torch.testing.assert_close(
        answer.first_logits.double().log_softmax(dim=-1), expected[0], atol=1e-4, rtol=0
    )
    shares = expected.gather(1, torch.tensor(answer.token_ids)[:, None])[:, 0].tolist()
    assert answer.log_probabilities == pytest.approx(shares, abs=1e-4)
    assert answer.prompt_tokens == tiny_model.answer(view, Selection([1, 2, 3, 4]), 1).prompt_tokens
    plain = tiny_model.answer(view, dataclasses.replace(selection, bias=None), 1, option)
    assert (plain.first_logits - answer.first_logits).abs().max() > 1e-3  # the bias matters


def test_no_bias_and_a_bias_of_nothing_are_the_same(tiny_model: Model, view: View) -> None:
    selection = dataclasses.replace(merged(view), bias=torch.zeros(4))
    plain = dataclasses.replace(selection, bias=None)
    one, two = (tiny_model.answer(view, kept, 5) for kept in (selection, plain))
    assert one.token_ids == two.token_ids
    torch.testing.assert_close(one.first_logits, two.first_logits, atol=1e-5, rtol=0)


def test_with_others_each_is_what_it_is_alone(tiny_model: Model, view: View) -> None:
    selection = merged(view)
    sets = {
        "all": None,
        "biased": selection,
        "plain": dataclasses.replace(selection, bias=None),
        "few": Selection([3, 0, 15]),
    }
    together = answer_all(tiny_model, view, sets, 5)
    many = tiny_model.answer_many([(view, kept) for kept in sets.values()], 5)
    given = together["all"].token_ids
    scores = tiny_model.score_many([(view, kept) for kept in sets.values()], given)
    for (label, kept), short, score in zip(sets.items(), many, scores, strict=True):
        alone = tiny_model.answer(view, kept, 5)
        assert together[label].token_ids == short.token_ids == alone.token_ids
        torch.testing.assert_close(short.first_logits, alone.first_logits, atol=2e-4, rtol=1e-4)
        forced = tiny_model.score(view, kept, given).log_probabilities
        assert score.log_probabilities == pytest.approx(forced, abs=1e-4)


@pytest.mark.parametrize("family", ["tiny_model", "tiny_next"])
@pytest.mark.parametrize("name", [name for name, method in PRUNERS.items() if method.merges])
def test_a_method_that_merges_gives_each_row_the_log_of_its_tokens(
    family: str, name: str, photo: Image.Image, request: pytest.FixtureRequest
) -> None:
    if PRUNERS[name].inside:
        assert not hasattr(PRUNERS[name], "size_bias")
        return
    model: Model = request.getfixturevalue(family)
    aspect: Any = "any" if family == "tiny_next" else None
    view = model.encode(photo, QUESTION, aspect)
    method = dataclasses.replace(PRUNERS[name], size_bias="log")  # type: ignore[type-var]
    budget = view.tokens.n // 2
    plain, biased = (m.select(view.tokens, budget) for m in (PRUNERS[name], method))
    assert plain.bias is None
    assert plain.order.tolist() == biased.order.tolist()
    assert torch.equal(plain.features, biased.features)
    for row, bias in zip(biased.sources, biased.bias.tolist(), strict=True):
        count = sum(1 for share in row.tolist() if share != 0)
        assert bias == pytest.approx(math.log(max(1, count)), abs=1e-6)
    assert biased.bias.max() > 0
    rows = kept_rows(view.picture, biased)
    assert torch.equal(rows.bias[~rows.newline], biased.bias)
    assert not rows.bias[rows.newline].any()
    assert model.answer(view, biased, 2).token_ids


def test_it_is_a_setting_of_the_method_wherever_a_name_goes(
    tiny_model: Model, photo: Image.Image
) -> None:
    names = ("vscan", "vscan:size_bias=log")
    result = compare(tiny_model, photo, QUESTION, names, 4, 3)
    assert [record.title for record in result.methods.values()] == [
        "VScan, vision stage",
        "VScan, vision stage (size_bias=log)",
    ]
    again = result.request.labelled["vscan:size_bias=log"]
    assert again.size_bias == "log"
    alone = tiny_model.answer(result.view, again.select(result.view.tokens, 4), 3)
    biased = result.answers["vscan:size_bias=log"]
    assert biased.token_ids == alone.token_ids
    assert biased.log_probabilities == pytest.approx(alone.log_probabilities, abs=1e-4)
    assert biased.log_probabilities != pytest.approx(result.answers["vscan"].log_probabilities)
    with pytest.raises(ValueError, match="Choose one of: none, log"):
        compare(tiny_model, photo, QUESTION, ("vscan:size_bias=sqrt",), 4, 3)


def test_a_row_that_is_left_out_takes_its_bias_with_it(tiny_model: Model, view: View) -> None:
    selection = merged(view)
    answer = tiny_model.answer(view, selection, 2)
    *_, last = leave_one_out(tiny_model, view, selection, answer, 2)
    stays = [0, 1, 3]
    without = Selection(
        selection.order,
        features=selection.features[stays],
        sources=selection.sources[stays],
        bias=selection.bias[stays],
    )
    words = len(answer.token_ids) - (answer.ended == "end" and len(answer.token_ids) > 1)
    expected = [
        math.fsum(tiny_model.score(view, kept, answer.token_ids).log_probabilities[:words])
        for kept in (selection, without)
    ]
    assert last.removals[2].log_loss == pytest.approx(expected[0] - expected[1], abs=1e-4)


def test_a_model_that_looks_back_only_so_far_takes_none(
    tiny_model: Model, view: View, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spare_demo.models.generate.decoder_inputs.window", lambda hf: 8)
    with pytest.raises(ValueError, match="Leave size_bias at none"):
        tiny_model.answer(view, merged(view), 2)

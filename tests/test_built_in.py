"""The model that comes with the program, its real features and its real words."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import open_clip
import pytest
import torch
from layer_references import density_peaks
from references import (
    as_array,
    cdpruner,
    cosines,
    greedy_to_the_end,
    minmax_weight,
    softplus_weight,
    spare,
)
from stock import keep_all_as_stock

from spare_demo import PRUNERS, compare
from spare_demo.cli import compare as compare_command
from spare_demo.cli import main as program
from spare_demo.evaluation.grading import grade
from spare_demo.models import LlavaModel, View
from spare_demo.models.loading.catalogue import ASSETS
from spare_demo.pruners.inside import sparsevlm
from spare_demo.pruners.inside.sparsevlm import cluster
from spare_demo.scenes.training.card import card
from spare_demo.scenes.training.files import read_history

EXAMPLES = json.loads((ASSETS / "examples" / "examples.json").read_text())
ROOT = Path(__file__).parent.parent
BUDGET = 192  # the largest of the papers'


@pytest.fixture(scope="module")
def views(built_in: LlavaModel) -> list[View]:
    return [built_in.encode(ASSETS / "examples" / e["picture"], e["question"]) for e in EXAMPLES]


def test_assets_are_small_enough_for_a_space() -> None:
    sizes = {path: path.stat().st_size for path in ASSETS.rglob("*") if path.is_file()}
    assert max(sizes.values()) < 9_500_000
    assert sum(sizes.values()) < 32_000_000
    own = [size for path, size in sizes.items() if ASSETS / "built-in" in path.parents]
    assert 0 < sum(own) < 17_000_000


def test_everything_in_assets_is_listed_with_its_licence() -> None:
    text = (ASSETS / "README.md").read_text()
    for path in ASSETS.iterdir():
        assert path.name == "README.md" or f"`{path.name}" in text, path.name


def test_sparsevlm_merges_groups_of_states_and_not_the_neighbours_of_the_first(
    built_in: LlavaModel, views: list[View], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Densities exp(-mean d^2) of these states are 0 in float32, and all would be equal."""
    inputs: list[tuple[torch.Tensor, int]] = []

    def record(states: torch.Tensor, count: int) -> torch.Tensor:
        inputs.append((states, count))
        return cluster(states, count)

    monkeypatch.setattr(sparsevlm, "cluster", record)
    built_in.answer(views[0], PRUNERS["sparsevlm"].plan(views[0], 64), max_new_tokens=1)
    inputs = [(states, count) for states, count in inputs if count > 1]
    assert inputs
    for states, count in inputs:
        rows = states.double()
        distance = torch.cdist(rows, rows) / rows.shape[1] ** 0.5
        nearest = distance.sort(dim=1).values[:, :count]
        assert nearest.square().mean(dim=1).neg().float().exp().max() == 0
        members = [row.nonzero().flatten().tolist() for row in cluster(states, count)]
        assert members == density_peaks(rows, count)


def test_it_has_576_tokens_of_14_pixels(built_in: LlavaModel, views: list[View]) -> None:
    assert (built_in.size, built_in.patch) == (336, 14)
    assert all(view.tokens.n == 576 for view in views)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_real_features_give_the_references_picks(views: list[View], dtype: torch.dtype) -> None:
    """Every budget up to 192 at once: the picks are nested, so the order says it for all.

    In float32 these features have a numerical rank of 120 to 180; from there on the reference
    follows the rule that `greedy.py` states. In half precision rounding gives them full rank, and
    Algorithm 1 to the letter is the reference all the way.
    """
    for view in views:
        tokens = replace(view.tokens, features=view.tokens.features.to(dtype))
        x = as_array(tokens.features)
        length = np.linalg.norm(x, axis=1)
        cosine = cosines(as_array(view.tokens.clip_image), as_array(view.tokens.clip_text))
        rho = softplus_weight(-cosine.mean(axis=1))
        w = minmax_weight(-cosine.mean(axis=1))
        if dtype == torch.float32:
            references = {
                "spare": greedy_to_the_end(x, rho * length**2, BUDGET, 1e-6),
                "spare-reconstruction": greedy_to_the_end(x, length**2, BUDGET, 1e-6),
                "cdpruner": greedy_to_the_end(x, w**2, BUDGET, 1e-6),
            }
        else:
            references = {
                "spare": spare(x, rho, BUDGET),
                "spare-reconstruction": spare(x, np.ones_like(rho), BUDGET),
                "cdpruner": cdpruner(x, w, BUDGET),
            }
        for name, order in references.items():
            picked = PRUNERS[name].select(tokens, BUDGET)
            assert picked.order.tolist() == order, name
            assert not picked.gain.isnan().any()


def test_keeping_all_is_stock_generate(built_in: LlavaModel, views: list[View]) -> None:
    for view in views[:3]:
        inputs = {"input_ids": view.input_ids, "pixel_values": view.pixel_values}
        keep_all_as_stock(built_in, view, 16, **inputs)


def test_the_two_towers_agree(built_in: LlavaModel, views: list[View]) -> None:
    """Patch embeddings of LLaVA's tower, and of open_clip's own on the same pixels."""
    clip, *_ = open_clip.create_model_and_transforms(f"local-dir:{ASSETS}/built-in/clip")
    clip.float().eval()
    clip.visual.output_tokens = True
    picture = views[0].picture
    with torch.inference_mode():
        _, normed = clip.visual(picture.pixel_values)  # after ln_post, before proj
        theirs = normed[0] @ clip.visual.proj
        ours = built_in.text_tower.ln_post(picture.hidden[-1]) @ built_in.text_tower.proj
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-4)


def test_it_knows_its_examples(built_in: LlavaModel, views: list[View]) -> None:
    answers = [built_in.answer(view, max_new_tokens=8).text for view in views]
    assert [grade(a, e["answer"]) for a, e in zip(answers, EXAMPLES, strict=True)] == [True] * 6


def test_its_examples_are_all_the_scenes_and_no_photos() -> None:
    names = {path.name for path in (ASSETS / "examples").glob("*.png")}
    assert names == {example["picture"] for example in EXAMPLES}


def accuracy() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ASSETS / "built-in" / "accuracy.json").read_text())
    return found


def test_the_model_card_is_made_of_the_measured_figures() -> None:
    made = card(accuracy(), read_history(ASSETS / "built-in"))
    assert (ASSETS / "built-in" / "README.md").read_text() == made


def test_the_readme_cites_the_measured_figures() -> None:
    readme = (ROOT / "README.md").read_text()
    for found in accuracy()["sets"].values():
        for estimate in found["accuracy"]:
            assert f"{100 * estimate['value']:.1f} %" in readme


def test_the_readme_shows_what_compare_prints(
    built_in: LlavaModel,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    readme = (ROOT / "README.md").read_text()
    ((command, shown),) = re.findall(
        r"^spare-demo (compare .+) out  .+`compare` says:\n\n```\n(.+?)```", readme, re.M | re.S
    )
    words = shlex.split(command.replace("\\\n", " "))
    monkeypatch.chdir(ROOT)
    monkeypatch.setattr(compare_command, "load_model", lambda *_, **__: built_in)
    assert program.main([*words, str(tmp_path)]) == 0
    assert shown in capsys.readouterr().out
    for budget, gives in ((32, False), (64, True)):  # as the README says below it
        answers = compare(built_in, *words[1:3], budget=budget, max_new_tokens=8).answers
        assert [answers[name].text == "BUS" for name in ("spare", "cdpruner")] == [gives] * 2


def test_the_figures_are_of_these_weights(built_in: LlavaModel) -> None:
    assert accuracy()["settings"]["model"]["revision"] == built_in.revision

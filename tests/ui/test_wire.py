"""What the browser gets: decoded here as its script would, and held to exact float64 results."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from visits import page_request

from spare_demo import measures
from spare_demo.comparison.request import choose
from spare_demo.comparison.selections import Exploration, explore
from spare_demo.models import LlavaModel, View
from spare_demo.models.families.llava_next import LlavaNextModel
from spare_demo.models.loading.catalogue import ASSETS
from spare_demo.pruners import PRUNERS
from spare_demo.tokens import Selection, VisualTokens
from spare_demo.ui import wire
from spare_demo.ui.gradio_compat.files import files_in_cache, remove_old_files, write_to_cache
from spare_demo.ui.guide import Guide
from spare_demo.ui.payload import payload
from spare_demo.ui.viewer import viewer, write_comparison
from spare_demo.ui.wire import (
    DEPENDENT,
    MOST_BYTES,
    ROW_ERROR,
    TOLERANCE,
    comparison_data,
    coordinates,
    to_bytes,
)


def size_of(data: dict) -> int:
    return len(to_bytes(data))


def directions(told: dict, n: int) -> np.ndarray:
    blocks = [told[name].astype(float).reshape(n, -1) for name in ("wide", "narrow")]
    both = np.concatenate(blocks, axis=1) * told["step"]
    assert both.shape == (n, told["rank"])
    return both


def shares(told: dict, n: int, order: list[int], budgets: list[int]) -> dict[int, np.ndarray]:
    """Leftover shares as the module's note says to compute them."""
    rest, found = directions(told, n), {}
    for k in range(max(budgets) + 1):
        if k in budgets:
            found[k] = (rest**2).sum(axis=1)
        if k < len(order):
            pick = rest[order[k]]
            length = np.sqrt(pick @ pick)
            if length > DEPENDENT * told["row_error"]:
                rest = rest - np.outer(rest @ pick, pick) / length**2
    return found


@pytest.fixture(scope="module")
def exploration(view: View) -> Exploration:
    methods = choose(("spare", "cdpruner", "uniform"))
    return explore(view, methods).with_set("mine", Selection(order=[7, 2, 11]))


def test_everything_arrives(exploration: Exploration) -> None:
    told = comparison_data(exploration)
    tokens = exploration.view.tokens
    assert (told["n"], told["rows"], told["columns"], told["cells"]) == (16, 4, 4, None)
    assert exploration.view.relevance is not None
    np.testing.assert_allclose(told["cosine"].astype(float), exploration.view.relevance, rtol=1e-6)
    norms = told["squared_norms"].astype(float)
    np.testing.assert_allclose(norms, tokens.features.double().square().sum(dim=1), rtol=1e-6)
    methods = told["methods"]
    assert list(methods) == ["spare", "cdpruner", "uniform", "mine"]
    for label in ("spare", "cdpruner"):
        method, full = methods[label], exploration.picks[label]
        assert method["nested"]
        assert method["order"].astype(float).tolist() == full.order.tolist()
        weight = exploration.weights[label]
        np.testing.assert_allclose(method["weight"].astype(float), weight, rtol=1e-6)
    assert methods["spare"]["factors"]["magnitude"] == "squared_norms"
    assert methods["cdpruner"]["factors"]["magnitude"] is None
    squares = methods["cdpruner"]["weight"].astype(float) ** 2
    np.testing.assert_allclose(
        methods["cdpruner"]["factors"]["text"].astype(float), squares, rtol=1e-6
    )
    uniform = {key: methods["uniform"][key] for key in ("name", "nested", "order", "factors")}
    assert uniform == {"name": "uniform", "nested": False, "order": None, "factors": None}
    assert methods["mine"]["name"] is None
    assert methods["mine"]["title"] == "mine"
    assert methods["mine"]["order"].astype(float).tolist() == [7, 2, 11]


def test_the_values_at_each_pick_come_out_as_its_gain(exploration: Exploration) -> None:
    told = comparison_data(exploration)
    norms = told["squared_norms"].astype(float)
    for label in ("spare", "cdpruner"):
        method = told["methods"][label]
        order = [int(token) for token in method["order"].astype(float)]
        found = shares(told["coordinates"], 16, order, list(range(16)))
        magnitude = norms if method["factors"]["magnitude"] else np.ones(16)
        value = magnitude * method["factors"]["text"].astype(float)
        gains = exploration.picks[label].gain
        assert gains is not None
        for step, gain in enumerate(gains.tolist()):
            pick = order[step]
            slack = TOLERANCE * told["coordinates"]["row_error"] * value[pick]
            assert found[step][pick] * value[pick] == pytest.approx(gain, abs=slack)


@given(
    n=st.integers(2, 60),
    d=st.integers(1, 80),
    decay=st.floats(0, 0.5),
    seed=st.integers(0, 99),
    name=st.sampled_from(["spare", "cdpruner", "cdpruner-diversity"]),
)
@settings(max_examples=40)
def test_leftover_shares_along_an_order_are_as_close_as_said(
    n: int, d: int, decay: float, seed: int, name: str
) -> None:
    g = torch.Generator().manual_seed(seed)
    spectrum = torch.exp(-decay * torch.arange(d).double())
    x = torch.randn(n, d, generator=g).double() * spectrum
    tokens = VisualTokens(x, torch.randn(n, 6, generator=g), torch.randn(1, 6, generator=g))
    told = coordinates(tokens, 1_000_000)
    assert told is not None
    assert told["row_error"] <= ROW_ERROR
    order = PRUNERS[name].select(tokens, n).order.tolist()
    found = shares(told, n, order, list(range(0, n + 1, max(1, n // 6))))
    for k, share in found.items():
        exact = measures.leftover_share(x, order[:k]).numpy()
        assert np.abs(share - exact).max() <= TOLERANCE * told["row_error"]


@given(
    n=st.integers(60, 200),
    d=st.integers(1, 120),
    decay=st.floats(0, 2),
    most_rank=st.integers(0, 40),
    seed=st.integers(0, 99),
)
@settings(max_examples=80)
def test_what_some_rows_show_to_be_too_rough_is_too_rough(
    n: int, d: int, decay: float, most_rank: int, seed: int
) -> None:
    g = torch.Generator().manual_seed(seed)
    spectrum = torch.exp(-decay * torch.arange(d).double())
    x = torch.randn(n, d, generator=g).double() * spectrum
    x[:: 1 + seed % 7] = 0
    unit = torch.nn.functional.normalize(x)
    left = unit - unit @ (axes := torch.linalg.svd(unit).Vh[:most_rank]).T @ axes
    if wire._surely_too_rough(x, most_rank):
        assert left.norm(dim=1).max() > ROW_ERROR


def test_most_features_too_rough_are_found_so() -> None:
    g = torch.Generator().manual_seed(0)
    spectrum = torch.arange(1, 401) ** -0.7
    assert wire._surely_too_rough(torch.randn(300, 400, generator=g) * spectrum, 40)
    wide = torch.randn(300, 60, generator=g) * (torch.arange(60) < 40)
    assert not wire._surely_too_rough(wide, 40)
    assert not wire._surely_too_rough(wide[:, :40], 40)


def test_no_direction_is_off_by_more_than_the_row_error() -> None:
    g = torch.Generator().manual_seed(0)
    x = torch.randn(50, 20, generator=g).double()
    x[3] = 0
    told = coordinates(VisualTokens(x), 50 * 20 * 3)
    assert told is not None
    found = directions(told, 50)
    unit = x / x.norm(dim=1, keepdim=True).clamp_min(1e-300)
    # The axes are the sender's own: angles and lengths are what can be compared.
    np.testing.assert_allclose(found @ found.T, unit @ unit.T, atol=2.1 * told["row_error"])
    assert not found[3].any()


def test_with_less_room_they_are_coarser_and_at_last_left_out() -> None:
    g = torch.Generator().manual_seed(0)
    tokens = VisualTokens(torch.randn(64, 48, generator=g))
    sent = [coordinates(tokens, 64 * 48 * bytes_each) for bytes_each in (4, 3, 2, 1)]
    errors = [told["row_error"] for told in sent[:3] if told]
    assert len(errors) == 3
    assert errors == sorted(errors)
    assert errors[0] < errors[2]
    assert sent[3] is None
    for told, bytes_each in zip(sent[:3], (4, 3, 2), strict=True):
        assert told is not None
        raw = sum(told[name].nbytes for name in ("wide", "narrow"))
        assert raw <= 64 * 48 * bytes_each


def test_the_limit_on_bytes_holds_or_is_refused(exploration: Exploration) -> None:
    whole = size_of(comparison_data(exploration))
    without = size_of({**comparison_data(exploration), "coordinates": None})
    assert whole > without
    cut = comparison_data(exploration, without + 300)
    assert cut["coordinates"] is None
    assert size_of(cut) <= without + 300
    assert size_of(comparison_data(exploration, whole + 200)) == whole
    with pytest.raises(ValueError, match="Compare fewer methods"):
        comparison_data(exploration, without - 10)


def test_the_built_in_model_fits_with_coordinates(built_in: LlavaModel) -> None:
    listed = json.loads((ASSETS / "examples" / "examples.json").read_text())
    for row in listed[:2]:
        view = built_in.encode(ASSETS / "examples" / row["picture"], row["question"])
        explored = explore(view, choose(("spare", "cdpruner")))
        told = comparison_data(explored)
        assert size_of(told) <= MOST_BYTES < 300_000
        assert told["coordinates"] is not None
        for label, full in explored.picks.items():
            found = shares(told["coordinates"], told["n"], full.order.tolist(), [16, 64, 128])
            for k, share in found.items():
                exact = measures.leftover_share(view.tokens.features, full.order[:k]).numpy()
                off = np.abs(share - exact).max()
                assert off <= TOLERANCE * told["coordinates"]["row_error"], (label, k)


def test_tokens_of_several_views_come_with_their_cells(
    tiny_next: LlavaNextModel, photo: Image.Image
) -> None:
    view = tiny_next.encode(photo, "What colour?", "any")
    told = comparison_data(explore(view, {"A": PRUNERS["spare"]}))
    assert told["coordinates"] is None  # novelty is to the picks of a token's own view
    as_one = tiny_next.encode(photo, "What colour?", "any", together=True)
    assert comparison_data(explore(as_one, {"A": PRUNERS["spare"]}))["coordinates"] is not None
    cells = told["cells"]
    assert cells.tolist() == view.grid.cells.tolist()
    assert (told["rows"], told["columns"]) == (6, 4 + 2 + 8)


KINDS = ("f4", "i4", "i2", "u2", "u1")
arrays = st.builds(
    lambda kind, data: np.frombuffer(data[: len(data) // 4 * 4], f"<{kind}"),
    st.sampled_from(KINDS),
    st.binary(max_size=40),
)
plain = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5)
values = st.recursive(
    arrays | st.binary(max_size=7) | plain,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=12,
)


def read(file: bytes) -> Any:
    """What a bundle holds; arrays as (type, bytes)."""
    length = int.from_bytes(file[:4], "little")
    after = 4 + -(-length // 4) * 4

    def array(value: dict[str, Any]) -> Any:
        if value.keys() != {"type", "from", "count"}:
            return value
        start = after + value["from"]
        assert start % 4 == 0  # else no typed array can lie on it
        numbers = np.frombuffer(file, f"<{value['type']}", value["count"], start)
        return value["type"], numbers.tobytes()

    return json.loads(file[4 : 4 + length], object_hook=array)


def expected(value: Any) -> Any:
    if isinstance(value, bytes):
        return "u1", value
    if isinstance(value, np.ndarray):
        return value.dtype.str[1:], value.tobytes()
    if isinstance(value, list | tuple):
        return [expected(one) for one in value]
    if not isinstance(value, dict):
        return value
    return {name: expected(one) for name, one in value.items()}


@given(st.dictionaries(st.text(max_size=4), values))
def test_what_goes_in_comes_out(told: dict[str, Any]) -> None:
    assert read(to_bytes({"told": told}))["told"] == expected(told)


def test_a_comparison_lies_at_an_address_and_what_the_page_opens_on_stays(
    guide: Guide, photo_file: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))  # others make files beside this process

    def asked(question: str) -> dict[str, Any]:
        return payload(guide.look(page_request(photo_file, question, "spare", "uniform")), 5)

    first, other = asked("What is it?"), asked("Which one?")
    with gr.Blocks() as demo:
        part = viewer(first)
    kept = files_in_cache()
    opening, later = part.value, write_comparison(other)
    for path, told in ((opening, first), (later, other)):
        with open(path, "rb") as file:
            assert read(file.read()) == expected(told)
    remove_old_files(demo, kept, 0, 0)
    assert Path(opening).exists() and not Path(later).exists()


def test_a_file_that_somebody_may_be_reading_is_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADIO_TEMP_DIR", str(tmp_path))
    one, other = (Path(write_to_cache(b"the same", "page.html")) for _ in range(2))
    assert one != other and one.parent == other.parent  # by which the page knows what it has
    assert one.read_bytes() == other.read_bytes() == b"the same"

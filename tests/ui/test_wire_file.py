"""The file of a comparison, read back by its description."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gradio as gr
import numpy as np
from gradio.route_utils import delete_files_created_by_app
from hypothesis import given
from hypothesis import strategies as st
from visits import page_request

from spare_demo.ui.guide import Guide
from spare_demo.ui.payload import payload
from spare_demo.ui.viewer import viewer, write_comparison
from spare_demo.ui.wire import to_bytes

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
    guide: Guide, photo_file: str
) -> None:
    def asked(question: str) -> dict[str, Any]:
        return payload(guide.look(page_request(photo_file, question, "spare", "uniform")), 5)

    first, other = asked("What is it?"), asked("Which one?")
    with gr.Blocks() as demo:
        part = viewer(first)
    opening, later = part.value, write_comparison(part, other)
    assert part.keep_in_cache == {opening} and part.temp_files == {opening, later}
    for path, told in ((opening, first), (later, other)):
        with open(path, "rb") as file:
            assert read(file.read()) == expected(told)
    delete_files_created_by_app(demo, age=0)  # as Gradio does by the clock
    assert Path(opening).exists() and not Path(later).exists()

"""What bytes hold of a value that leaves its process."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pytest
import torch
from PIL import Image

from spare_demo.models.generate.passes import DeviceElsewhere
from spare_demo.ui.plain_data import VisitData, pack, unpack


@pytest.mark.parametrize(
    "tensor",
    [
        torch.tensor([1.5, -2.0], dtype=torch.bfloat16),
        torch.tensor([[1, 2], [3, 4]]).T,
        torch.tensor(3.0),
        torch.tensor([True, False]),
        torch.empty(0, 4),
    ],
)
def test_a_tensor_comes_back_as_it_was(tensor: torch.Tensor) -> None:
    back = unpack(pack(tensor))
    assert (back.dtype, back.shape, back.device.type) == (tensor.dtype, tensor.shape, "cpu")
    assert torch.equal(back, tensor)


def test_a_row_of_a_large_tensor_leaves_the_rest_behind() -> None:
    assert len(pack(torch.zeros(1000, 1000)[3])) < 5000


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_tensor_of_a_gpu_comes_back_on_the_cpu() -> None:
    back = unpack(pack({"x": torch.arange(3, device="cuda")}))
    assert back["x"].device.type == "cpu" and back["x"].tolist() == [0, 1, 2]


def test_a_function_of_another_function_stays_behind() -> None:
    def outer() -> Callable[[], int]:
        return lambda: 3

    for function in (outer, outer()):
        far = unpack(pack({"project": function}))["project"]
        with pytest.raises(DeviceElsewhere):
            far(torch.zeros(2))
    assert unpack(pack(len)) is len


def test_a_known_photo_is_left_out_and_any_other_is_refused() -> None:
    photo, other = (Image.new("RGB", (500, 500), colour) for colour in ("red", "blue"))
    data = pack([photo, photo, "kept"], photo)
    assert len(data) < 200
    assert unpack(data, other) == [other, other, "kept"]
    with pytest.raises(TypeError, match="Image cannot leave its process"):
        pack([other], photo)


def test_a_visit_leaves_its_picture_and_what_was_made_of_it_behind(guide, photo_file) -> None:
    from visits import page_request

    visit = guide.look(page_request(photo_file, "What is this?"))
    back = unpack(pack({"visit": visit}))["visit"]
    assert isinstance(back, VisitData) and not {"canvas", "exploration"} & back.fields.keys()
    assert back.fields["request"].image == photo_file and back.fields["result"].view is None
    again = back.restore(visit.canvas, visit.exploration)
    assert again.request.question == visit.request.question and again.photo is visit.photo


def test_models_and_locks_are_refused(tiny_model) -> None:
    for value in (tiny_model, tiny_model.hf):
        with pytest.raises(TypeError, match=r"^A \w+ cannot leave its process\.$"):
            pack({"value": value})
    with pytest.raises((TypeError, pickle.PicklingError)):
        pack(tiny_model._passes)

"""The real app, served and driven by programs: what `/compare` gives, to one and to two at once."""

from __future__ import annotations

import json
import struct
import subprocess
import zlib
from pathlib import Path
from shutil import which
from typing import Any

import httpx
import pytest
from gradio_client import Client, handle_file
from gradio_client.exceptions import AppError
from PIL import Image, ImageDraw
from references import png_chunk

from spare_demo import compare
from spare_demo.pruners import PRUNERS
from spare_demo.results.io import write_result

ROOT = Path(__file__).parents[2]
QUESTION = "How many crosses are there?"


@pytest.fixture(scope="module")
def client(served) -> Client:
    return Client(served.url, verbose=False)


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    """A wide and a tall drawing."""
    folder = tmp_path_factory.mktemp("pictures")
    paths = []
    for name, size, colour in (("wide", (500, 200), "red"), ("tall", (150, 420), "blue")):
        picture = Image.new("RGB", size, "white")
        ImageDraw.Draw(picture).ellipse((30, 40, 110, 120), fill=colour)
        paths.append(str(folder / f"{name}.png"))
        picture.save(paths[-1])
    return paths[0], paths[1]


@pytest.fixture(scope="module")
def image(pictures) -> Any:
    """The wide one, as the client sends it."""
    return handle_file(pictures[0])


class Roughly(list):
    """Numbers that are equal to others up to rounding; unlike pytest.approx also to another."""

    def __eq__(self, other: object) -> bool:
        return list(self) == pytest.approx(list(other), abs=1e-5)  # type: ignore[call-overload]


def findings(result: dict[str, Any]) -> dict[str, Any]:
    """A result without what differs from run to run: wall times."""
    return {
        "picture": result["picture"]["sha256"],
        "prompt": result["prompt"],
        "relevance": Roughly(result["relevance"]),
        "orders": {name: item["order"] for name, item in result["selections"].items()},
        "answers": {
            name: (item["text"], item["token_ids"], item["visual_tokens"], item["kv_cache_bytes"])
            for name, item in result["answers"].items()
        },
    }


def alone(served, path: str, question: str, *pair: str, budget: int, seed: int = 0) -> dict:
    """What the package itself finds, without any page."""
    done = compare(served.model, path, question, pair, budget, served.settings.max_new_tokens, seed)
    return findings(json.loads(write_result(done)))


def raw(served, data: list[Any]) -> tuple[str, str]:
    """Calls `/compare` without the client, which would be too polite; the last event and data."""
    answer = served.call("compare", data)
    if answer.status_code != 200:
        return "refused", answer.text
    event, told = answer.text.strip().split("\n\n")[-1].split("\n", 1)
    return event.removeprefix("event: "), told.removeprefix("data: ")


@pytest.mark.parametrize("name", ["compare", "call/compare", "call/v2/compare", "run/compare"])
def test_a_path_on_the_servers_disk_is_refused_at_every_door(served, pictures, name: str) -> None:
    """`pictures` were never uploaded: a stranger who knows where they lie must not see them."""
    refused = set()
    for path in (pictures[0], "/no/such/picture.png"):
        data: Any = [{"path": path}, QUESTION, "spare", "cdpruner", 20, 0]
        if name == "compare":
            refused.add(raw(served, data))
            continue
        body = {"data": data}
        if name == "call/v2/compare":
            inputs = ("image", "question", "method_a", "method_b", "budget", "seed")
            body = dict(zip(inputs, data, strict=True))
        answer = served.post(name, body)
        if "event_id" in answer.text:
            event = answer.json()["event_id"]
            told = httpx.get(served.api(f"{name}/{event}"), timeout=60).text
        else:
            assert answer.status_code >= 400
            told = answer.text
        refused.add(("refused", told))
        assert "selections" not in told and path not in told
    assert len(refused) == 1  # whether the file exists is not told
    assert "selections" not in str(refused)


@pytest.mark.skipif(not (which("bash") and which("curl")), reason="bash or curl is not installed")
def test_the_guides_lines_for_curl_give_an_answer(served, monkeypatch) -> None:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    guide = (ROOT / "docs" / "GUIDE.md").read_text()
    (lines,) = (part for part in guide.split("```") if "curl" in part and "/upload" in part)
    lines = lines.removeprefix("bash\n").replace("http://127.0.0.1:7860", served.url)
    said = subprocess.run(["bash", "-c", lines], cwd=ROOT, capture_output=True, text=True).stdout
    assert "event: complete" in said and '"visual_tokens": 576' in said


def test_four_endpoints_are_public_with_their_inputs(client) -> None:
    listed = client.view_api(return_format="dict", print_info=False)
    inputs = {
        name: [p["parameter_name"] for p in about["parameters"]]
        for name, about in listed["named_endpoints"].items()
    }
    assert inputs == {
        "/compare": [
            *("image", "question", "method_a", "method_b", "budget", "seed"),
            *("positions", "guidance_text"),
        ],
        "/select": ["image", "question", "method", "budget", "seed", "guidance_text"],
        "/relevance": ["image", "question", "words", "guidance_text"],
        "/answer": ["image", "question", "tokens", "positions"],
    }
    assert not listed["unnamed_endpoints"]


def test_a_program_goes_on_with_the_page_of_another_model(served, public) -> None:
    """Its client knows the operations by their numbers, as they were when it connected."""
    for page in (served, public):
        named = [page.demo.fns[number].api_name for number in range(4)]
        assert named == ["compare", "select", "relevance", "answer"]


def test_a_stranger_reads_what_goes_in_and_comes_out(client) -> None:
    listed = client.view_api(return_format="dict", print_info=False)["named_endpoints"]
    for endpoint in listed.values():
        given = {one["parameter_name"]: one for one in endpoint["parameters"]}
        assert all(one["python_type"]["description"] for one in given.values())
        assert "URL" not in given["image"]["python_type"]["description"]  # none is fetched
        assert "http" not in str(given["image"]["example_input"])
        assert "available url" not in str(given["image"]["type"])
        (result,) = endpoint["returns"]
        assert "any valid json" not in result["python_type"]["description"]
    assert "or null" in listed["/select"]["returns"][0]["python_type"]["description"]


def test_select_gives_the_picks_and_where_they_lie(served, client, pictures, image) -> None:
    told = client.predict(image, QUESTION, "cdpruner", 20, api_name="/select")
    view = served.model.encode(pictures[0], QUESTION)
    assert told["order"] == PRUNERS["cdpruner"].select(view.tokens, 20).order.tolist()
    assert told["boxes"][25] == pytest.approx(view.grid.boxes[25].tolist())
    assert (told["rows"], told["columns"], told["visual_tokens"]) == (24, 24, 576)


def test_relevance_gives_a_number_per_patch_and_per_word(client, image) -> None:
    told = client.predict(image, "red circle?", True, api_name="/relevance")
    assert len(told["cosine"]) == 576
    assert "".join(word["word"] for word in told["words"]) == "redcircle?"
    assert all(-1 <= value <= 1 for word in told["words"] for value in word["cosine"])


def test_answer_from_chosen_tokens_is_compared_with_the_whole(served, client, image) -> None:
    whole = client.predict(image, QUESTION, api_name="/answer")
    few = client.predict(image, QUESTION, "[3, 17, 240]", api_name="/answer")
    assert (whole["visual_tokens"], few["visual_tokens"]) == (576, 3)
    assert few["unpruned"] == whole["text"] and "kl" not in whole
    assert few["kl"] >= 0 and 0 <= few["probability"] <= 1
    every = client.predict(image, QUESTION, str(list(range(576))), api_name="/answer")
    assert every["text"] == whole["text"] and every["kl"] == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize(
    ("tokens", "sentence"),
    [("[]", "empty"), ("[3, 3]", "more than once"), ("[576]", "numbered 0 to 575"), ("x", "list")],
)
def test_bad_picks_are_refused_in_a_sentence(client, image, tokens: str, sentence: str) -> None:
    with pytest.raises(AppError, match=sentence):
        client.predict(image, QUESTION, tokens, api_name="/answer")


def test_compare_finds_what_the_package_finds(served, client, pictures, image) -> None:
    result = client.predict(image, QUESTION, "spare", "random", 48, 7, api_name="/compare")
    assert findings(result) == alone(
        served, pictures[0], QUESTION, "spare", "random", budget=48, seed=7
    )
    assert result["settings"]["budget"] == 48
    assert result["model"] == "built-in"


def test_only_picture_and_question_must_be_given(served, client, image) -> None:
    result = client.predict(image, QUESTION, api_name="/compare")
    assert set(result["selections"]) == {"spare", "cdpruner"}
    assert len(result["selections"]["spare"]["order"]) == 64


def test_kept_tokens_have_the_positions_asked_for(served, client, pictures, image) -> None:
    pair = ("spare", "random", 8, 7)
    named = client.predict(image, QUESTION, *pair, "original", api_name="/compare")
    own = compare(
        served.model,
        pictures[0],
        QUESTION,
        pair[:2],
        8,
        served.settings.max_new_tokens,
        7,
        positions="original",
    )
    assert findings(named) == findings(json.loads(write_result(own)))
    assert named["settings"]["positions"] == "original"
    picks = json.dumps(named["selections"]["spare"]["order"])
    answers = [
        client.predict(image, QUESTION, picks, positions, api_name="/answer")
        for positions in ("compact", "original", "")
    ]
    assert answers[0]["kl"] == answers[2]["kl"] != answers[1]["kl"]
    assert answers[1]["text"] == named["answers"]["spare"]["text"]
    with pytest.raises(AppError, match="Choose one of: compact, original"):
        client.predict(image, QUESTION, picks, "packed", api_name="/answer")


def test_a_list_of_inputs_may_end_before_what_came_later(served, client, pictures) -> None:
    image = served.picture(pictures[0])
    event, told = raw(served, [image, QUESTION, "spare", "random", 48, 7])
    assert event == "complete", told
    expected = alone(served, pictures[0], QUESTION, "spare", "random", budget=48, seed=7)
    assert findings(json.loads(told)[0]) == expected
    event, told = raw(served, [image, QUESTION, "spare", "random", 48])
    assert event == "error" and "Too few inputs were sent. Send image" in told
    assert "method_b, budget, seed." in told


def test_a_budget_may_be_a_share_of_the_pictures_tokens(client, image) -> None:
    told = client.predict(image, QUESTION, "spare", "random", "25%", api_name="/compare")
    assert told["settings"]["budget"] == 144
    told = client.predict(image, QUESTION, "spare", "12.5 %", api_name="/select")
    assert len(told["order"]) == 72


def test_without_a_question_the_text_part_is_off(client, image) -> None:
    result = client.predict(image, "", api_name="/compare")
    assert result["relevance"] is None
    assert len(result["notes"]) == 2


def test_two_at_once_get_what_each_would_alone(served, pictures) -> None:
    wide, tall = pictures
    asked = [
        (wide, "What color is the circle?", "spare", "cdpruner", 20),
        (tall, "Is there a number 0?", "uniform", "spare", 33),
    ]
    clients = [Client(served.url, verbose=False) for _ in asked]
    jobs = [
        client.submit(handle_file(path), question, a, b, k, api_name="/compare")
        for _ in range(2)
        for client, (path, question, a, b, k) in zip(clients, asked, strict=True)
    ]
    results = [findings(job.result(timeout=120)) for job in jobs]
    expected = [alone(served, p, q, a, b, budget=k) for p, q, a, b, k in asked]
    assert expected[0]["orders"] != expected[1]["orders"]
    assert results == expected * 2


def png(width: int, height: int) -> bytes:
    """A black one-bit PNG of any size, written without holding its pixels."""
    packer, row = zlib.compressobj(9), bytes(1 + (width + 7) // 8)
    pixels = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()
    head = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", pixels), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(kind, data) for kind, data in chunks)


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"These are words.", "not a picture that can be read here"),
        (b"<html><script>alert(1)</script></html>", "not a picture that can be read here"),
        (b"", "empty"),
        (png(500, 200)[:60], "cut off or damaged"),
        (png(20_000, 20_000), "at most 40 million pixels"),
    ],
    ids=["text", "html", "empty", "truncated", "bomb"],
)
def test_a_bad_file_gets_a_sentence(client, tmp_path: Path, data: bytes, sentence: str) -> None:
    path = tmp_path / "picture.png"
    path.write_bytes(data)
    assert path.stat().st_size < 100_000
    with pytest.raises(Exception, match=sentence) as refused:
        client.predict(handle_file(str(path)), QUESTION, api_name="/compare")
    assert_tells_nothing(str(refused.value))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"image": None}, "There is no picture"),
        ({"image": "https://example.org/photo.png"}, "handle_file"),
        ({"budget": 0}, "from 1 to 576"),
        ({"budget": -4}, "from 1 to 576"),
        ({"budget": 577}, "from 1 to 576"),
        ({"budget": 2.5}, "from 1 to 576"),
        ({"budget": "many"}, "from 1 to 576"),
        ({"budget": None}, "from 1 to 576"),
        ({"budget": "0%"}, "above 0% and up to 100%"),
        ({"budget": "101%"}, "above 0% and up to 100%"),
        ({"budget": "few%"}, "above 0% and up to 100%"),
        ({"budget": [3]}, "from 1 to 576"),
        ({"method_a": "sparse"}, ", ".join(list(PRUNERS)[:2])),
        ({"method_b": ""}, "cdpruner"),
        ({"question": "why " * 2500}, "at most 2,000"),
        ({"question": "", "method_a": "anti-relevance"}, "needs text"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": 2**70}, "seed must be a whole number"),
        ({"seed": "x"}, "seed must be a whole number"),
    ],
)
def test_a_bad_value_gets_a_sentence(client, image, arguments: dict, sentence: str) -> None:
    given = {"image": image, "question": QUESTION} | arguments
    with pytest.raises(Exception, match=sentence) as refused:
        client.predict(**given, api_name="/compare")
    assert_tells_nothing(str(refused.value))


@pytest.mark.parametrize(
    ("operation", "arguments", "sentence"),
    [
        ("/answer", {"question": ["Is it red?"]}, "question must be text"),
        ("/answer", {"question": {}}, "question must be text"),
        ("/select", {"question": 5}, "question must be text"),
        ("/select", {"method": ["spare"]}, "method must be text"),
        ("/compare", {"positions": ["compact"]}, "positions must be text"),
        ("/relevance", {"guidance_text": True}, "guidance_text must be text"),
        ("/relevance", {"words": "false"}, "words must be true or false"),
        ("/relevance", {"words": [1]}, "words must be true or false"),
    ],
)
def test_nothing_is_taken_for_a_text_or_a_tick_that_is_none(
    client, image, operation: str, arguments: dict, sentence: str
) -> None:
    given = {"image": image, "question": QUESTION} | arguments
    with pytest.raises(AppError, match=sentence):
        client.predict(**given, api_name=operation)


def test_picks_may_be_sent_as_a_list(client, image) -> None:
    told = [
        client.predict(image, QUESTION, tokens, api_name="/answer")["kl"]
        for tokens in ("[3, 17, 240]", [3, 17, 240])
    ]
    assert told[0] == told[1]


@pytest.mark.parametrize(
    "image",
    ["photo.png", "data:image/png;base64,AAAA", {}, {"url": "data:image/png;base64,AAAA"}],
    ids=["name", "data", "nothing", "address"],
)
def test_a_picture_that_is_no_file_is_told_how_it_is_sent(served, image: object) -> None:
    event, told = raw(served, [image, QUESTION, "spare", "cdpruner", 64, 0])
    assert event == "error"
    assert "handle_file" in told and "upload it to /gradio_api/upload" in told


def test_a_file_over_the_limit_is_not_taken_in(client, served, tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    path.write_bytes(b"\x89PNG" + bytes(served.settings.max_upload_bytes))
    with pytest.raises(Exception, match=r"(?i)size|large"):
        client.predict(handle_file(str(path)), QUESTION, api_name="/compare")


@pytest.mark.parametrize(
    "image",
    [
        {"path": "/etc/passwd"},
        {"path": str(ROOT / "assets" / "examples" / "examples.json")},
        {"path": "../../etc/passwd", "is_stream": True},
        "/etc/passwd",
        17,
        {"nonsense": []},
    ],
)
def test_no_file_of_the_server_can_be_named(served, image: object) -> None:
    if isinstance(image, dict):
        image = image | {"meta": {"_type": "gradio.FileData"}}
    event, told = raw(served, [image, QUESTION, "spare", "cdpruner", 64, 0])
    assert event in ("error", "refused")
    assert_tells_nothing(told)
    assert "root:" not in told


def test_addresses_are_not_fetched(served) -> None:
    image = {"path": "http://192.0.2.1/x.png", "meta": {"_type": "gradio.FileData"}}
    event, told = raw(served, [image, QUESTION, "spare", "cdpruner", 64, 0])
    assert event == "error"
    assert "fetches nothing from addresses" in told


def test_it_still_serves_after_all_of_this(served, client, pictures) -> None:
    assert httpx.get(served.url).status_code == 200
    result = client.predict(handle_file(pictures[1]), QUESTION, api_name="/compare")
    assert findings(result) == alone(served, pictures[1], QUESTION, "spare", "cdpruner", budget=64)


def test_an_unknown_method_at_the_start_is_a_sentence(tiny_model) -> None:
    from spare_demo.settings import Settings
    from spare_demo.ui import build

    with pytest.raises(ValueError, match="cdpruner"):
        build(tiny_model, Settings(methods=("sparse",)))


def assert_tells_nothing(told: str) -> None:
    """No path, no line of code, no name of an exception."""
    for secret in ("Traceback", "/tmp", "/root", "/work", str(ROOT), ".py", "site-packages"):
        assert secret not in told

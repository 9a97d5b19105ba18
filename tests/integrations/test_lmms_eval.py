"""The adapter in lmms-eval itself: the answers are those of `evaluate`.

lmms-eval needs more than a gigabyte of packages, so it has an environment of its own:

    python3 -m venv lmms && lmms/bin/pip install '.[lmms-eval]'
    SPARE_LMMS_EVAL=lmms/bin/python .venv/bin/python -m pytest -m long tests/integrations
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from installed import install

from spare_demo.evaluation.experiment import Experiment
from spare_demo.evaluation.run import run
from spare_demo.evaluation.sheets import Sheet, draw_sheets
from spare_demo.models import LlavaModel
from spare_demo.pruners import PRUNERS

# The program is run from other folders; the link of an environment is not to be followed.
PYTHON = os.path.abspath(os.environ.get("SPARE_LMMS_EVAL", sys.executable))
HAS_HARNESS = not subprocess.run(
    [PYTHON, "-c", "from importlib.util import find_spec as f; exit(f('lmms_eval') is None)"],
    check=False,
).returncode
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not HAS_HARNESS, reason="lmms-eval is not installed; see this file's top"),
]

INSTRUCTION = "Answer the question using a single word or phrase."
TEXT = "What colour is a red circle?"
UTILS = """
from pathlib import Path
from PIL import Image

def pictures(document):
    path = document["image"]
    return [Image.open(Path(__file__).parent / path)] if path else []

def prompt(document, lmms_eval_specific_kwargs=None):
    return document["question"] + "\\n{instruction}"

def likelihood(document, results):  # lmms-eval 0.7.3's own takes a list of one pair for the pair
    ((_, greedy),) = results
    return {"acc": int(greedy)}
"""
TASK = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {folder}/{data}.jsonl}}}}
test_split: test
output_type: {kind}
doc_to_visual: !function utils.pictures
doc_to_text: !function utils.prompt
doc_to_target: answer
doc_to_choice: [red, blue]
target_delimiter: " "
generation_kwargs: {{max_new_tokens: 16, temperature: {temperature}}}
metric_list: [{{metric: {metric}, aggregation: mean, higher_is_better: true}}]
"""


@pytest.fixture(scope="module")
def sheets() -> list[Sheet]:
    return list(draw_sheets("held-out", 12))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, sheets: list[Sheet]) -> Path:
    """The installed package, and tasks of drawn scenes, of two choices, and of text alone."""
    folder = tmp_path_factory.mktemp("harness")
    install(folder)
    documents = []
    for sheet in sheets:
        sheet.open().save(folder / f"{sheet.picture}.png")
        for asked in sheet.questions:
            image, answer = f"{sheet.picture}.png", asked.answers[0]
            documents.append({"image": image, "question": asked.text, "answer": answer})
    alone = [{"image": "", "question": TEXT, "answer": "red"}]
    for name, lines in {"drawn": documents, "choice": documents[:3], "text": alone}.items():
        (folder / f"{name}.jsonl").write_text("\n".join(map(json.dumps, lines)) + "\n")
    (folder / "utils.py").write_text(UTILS.replace("{instruction}", INSTRUCTION))
    for name, kind, metric, temperature in (
        ("drawn", "generate_until", "exact_match", 0),
        ("text", "generate_until", "exact_match", 0),
        ("choice", "multiple_choice", "acc", 0),
        ("target", "loglikelihood", "acc", 0),
        ("sampled", "generate_until", "exact_match", 0.7),
    ):
        data = {"sampled": "drawn", "target": "choice"}.get(name, name)
        text = TASK.format(
            name=f"spare_{name}", folder=folder, data=data, kind=kind, metric=metric,
            temperature=temperature,
        )  # fmt: skip
        lines = text.splitlines()
        if kind != "multiple_choice":
            lines = [line for line in lines if not line.startswith("doc_to_choice")]
        if kind == "loglikelihood":
            lines.append("process_results: !function utils.likelihood")
        (folder / f"spare_{name}.yaml").write_text("\n".join(lines))
    return folder


def harness(
    folder: Path, arguments: str, tasks: str, launcher: tuple[str, ...] = (), out: str = "logs"
) -> subprocess.CompletedProcess[str]:
    """lmms-eval run as a program, on the installed package and without a network."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder / "installed"),
        "HF_HOME": str(folder / "home"),
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
    }
    return subprocess.run(
        [
            *(PYTHON, *launcher, "-m", "lmms_eval", "--model", "spare_demo"),
            *("--model_args", arguments, "--include_path", str(folder), "--tasks", tasks),
            *("--batch_size", "4", "--log_samples", "--output_path", str(folder / out)),
        ],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=1200,
    )


def samples(folder: Path, task: str) -> list[dict[str, Any]]:
    (path,) = folder.rglob(f"*_samples_spare_{task}.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    return sorted(lines, key=lambda line: line["doc_id"])


ARGUMENTS = "pretrained=built-in,method=spare,budget=32,question_field=question"


@pytest.fixture(scope="module")
def one(folder: Path) -> Path:
    tasks = "spare_drawn,spare_choice,spare_text,spare_target"
    done = harness(folder, ARGUMENTS, tasks, out="one")
    assert done.returncode == 0, done.stderr
    return folder / "one"


def test_the_predictions_are_those_of_evaluate(
    one: Path, built_in: LlavaModel, sheets: list[Sheet]
) -> None:
    methods = {"spare": PRUNERS["spare"]}
    experiment = Experiment(methods, (32,), blank=False, instruction=INSTRUCTION)
    rows = [row for done in run(built_in, sheets, experiment) for row in done.rows]
    expected = [row.prediction for row in rows if row.method == "spare"]
    logged = samples(one, "drawn")
    assert len(expected) == len(logged) > 8
    assert [line["filtered_resps"] for line in logged] == expected


TWO = ("-m", "accelerate.commands.launch", "--num_processes", "2", "--cpu")


def test_a_process_without_documents_waits_for_the_other(folder: Path, one: Path) -> None:
    done = harness(folder, ARGUMENTS, "spare_text", TWO, out="few")
    assert done.returncode == 0, done.stderr
    (line,), (alone,) = samples(folder / "few", "text"), samples(one, "text")
    assert line["filtered_resps"] == alone["filtered_resps"]


def test_two_processes_answer_as_one(folder: Path, one: Path) -> None:
    tasks = "spare_drawn,spare_choice"
    done = harness(folder, ARGUMENTS, tasks, TWO, out="two")
    assert done.returncode == 0, done.stderr
    for task in ("drawn", "choice"):
        alone, shared = samples(one, task), samples(folder / "two", task)
        assert [line["filtered_resps"] for line in shared] == [
            line["filtered_resps"] for line in alone
        ]


def test_samples_say_what_they_were_made_with(one: Path, built_in: LlavaModel) -> None:
    for task, whole, kept in (("drawn", 576, 32), ("choice", 576, 32), ("text", 0, 0)):
        for line in samples(one, task):
            record = line["token_counts"][0]
            assert (record["all_visual_tokens"], record["visual_tokens"]) == (whole, kept)
            assert (record["method"], record["budget"]) == ("spare", 32)
            assert record["revision"] == built_in.revision
            assert record["versions"]["lmms_eval"].startswith("0.7.")


def test_likelihoods_are_those_of_the_model(
    one: Path, built_in: LlavaModel, sheets: list[Sheet]
) -> None:
    asked = sheets[0].questions[0].text
    picture = built_in.look(sheets[0].open())
    view = built_in.ask(picture, f"{asked}\n{INSTRUCTION}")
    kept = PRUNERS["spare"].select(built_in.ask(picture, asked).tokens, 32)
    answer = sheets[0].questions[0].answers[0]
    expected = [
        sum(built_in.score_continuation("", (view, kept), text).log_probabilities)
        for text in (" red", " blue", answer)
    ]
    logged = samples(one, "choice")[0]["filtered_resps"]
    logged += [samples(one, "target")[0]["filtered_resps"]]
    assert [float(pair[0]) for pair in logged] == pytest.approx(expected, abs=1e-4)


def test_a_question_without_a_picture_is_answered(one: Path, built_in: LlavaModel) -> None:
    (line,) = samples(one, "text")
    assert line["filtered_resps"] == built_in.answer_text(f"{TEXT}\n{INSTRUCTION}", 16).text


@pytest.mark.parametrize(
    ("arguments", "task", "sentence"),
    [
        ("pretrained=built-in,method=spar", "drawn", "Did you mean spare?"),
        ("pretrained=built-in", "sampled", "The task spare_sampled sets temperature=0.7"),
        ("pretrained=built-in,question_field=q", "drawn", "have no field q."),
        ("pretrained=nothing", "drawn", "There is no model 'nothing'."),
    ],
)
def test_a_refusal_is_one_line_and_no_success(
    folder: Path, arguments: str, task: str, sentence: str
) -> None:
    done = harness(folder, arguments, f"spare_{task}", out="refused")
    assert done.returncode == 1
    assert sentence in done.stderr.splitlines()[-1]
    assert "Traceback" not in done.stderr
    if "field" not in sentence:
        assert "Loading weights" not in done.stderr

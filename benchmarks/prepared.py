"""Programs of the package whose imports are done before they are told what to run.

Where a machine is paid by the second, the next program's imports run beside the one before. Run as
a program, this file is such a program: it reads what to run from its standard input, and leaves
what torch took of the GPU in a file.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

from measuring import ROOT
from serving import end


@dataclass(frozen=True)
class Program:
    """A running program.

    Attributes:
        log: what it writes to standard error.
        memory: a file that it leaves at its end where it used a GPU.
    """

    process: subprocess.Popen[str]
    log: Path
    memory: Path

    @property
    def messages(self) -> list[str]:
        """The lines of its log, but for bars of progress and the times of questions."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line for line in lines if line and not re.search(r'it/s\]|^{"event"', line)]

    @property
    def last_words(self) -> str:
        """The last of its messages."""
        return (self.messages or [""])[-1]

    def gpu_gb(self) -> dict[str, float]:
        """The most that torch had `allocated` and `reserved`; empty where it left no word of it."""
        return json.loads(self.memory.read_text()) if self.memory.exists() else {}


class PreparedPrograms:
    """Starts programs one after the other; the next one imports while the one before runs."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        """folder: for logs. environment: of the programs, beside this one's."""
        self._folder, self._environment = folder, {**os.environ, **environment}
        self._started = 0
        self._next = self._start()

    @contextmanager
    def run(self, module: str, arguments: Sequence[str]) -> Iterator[Program]:
        """A program that calls `main(arguments)` of a module; it is ended with the block."""
        program, self._next = self._next, self._start()
        assert program.process.stdin is not None
        try:
            order = {"module": module, "arguments": [*arguments], "memory": str(program.memory)}
            program.process.stdin.write(json.dumps(order) + "\n")
            program.process.stdin.close()
            yield program
        finally:
            end(program.process)

    def close(self) -> None:
        """End the program that waits."""
        end(self._next.process)

    def _start(self) -> Program:
        self._started += 1
        log = self._folder / f"log-{self._started}.txt"
        with log.open("w") as stream:
            process = subprocess.Popen(
                [sys.executable, str(Path(__file__))],
                cwd=ROOT,
                env=self._environment,
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=stream,
                text=True,
            )
        return Program(process, log, log.with_suffix(".json"))


def main() -> int:
    """Import, read what to run, run it: its exit status."""
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # read where Gradio is imported
    import torch
    import transformers

    import spare_demo.cli.compare
    import spare_demo.ui.serve  # noqa: F401
    from spare_demo.models.families import FAMILIES

    for family in FAMILIES.values():  # transformers imports them at their first use
        getattr(transformers, family.hf_class)
    line = sys.stdin.readline()
    if not line:
        return 0
    order: dict[str, Any] = json.loads(line)
    try:
        return import_module(order["module"]).main(order["arguments"])
    finally:
        if torch.cuda.is_initialized():
            taken = {
                "allocated": torch.cuda.max_memory_allocated() / 1e9,
                "reserved": torch.cuda.max_memory_reserved() / 1e9,
            }
            Path(order["memory"]).write_text(json.dumps(taken))


if __name__ == "__main__":
    sys.exit(main())

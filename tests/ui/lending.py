"""What stands for `spaces.GPU` off ZeroGPU: one process that has a device by turns."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from typing import Any

from spare_demo.models import Model


class Lending:
    """Lends a device for one step after the other, and copies all that crosses as pickle does.

    calls: the name of each event that borrowed. crossed: the bytes that went there and back.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.calls: list[str] = []
        self.seconds: list[int] = []
        self.crossed: list[bytes] = []

    def __call__(self, task: Callable[..., Iterator[bytes]], duration: Callable[..., int]) -> Any:
        def lent(*arguments: Any) -> Iterator[bytes]:
            name, data, _ = pickle.loads(pickle.dumps(arguments))
            self.calls.append(name)
            self.seconds.append(duration(*arguments))
            self.crossed.append(data)
            steps = task(*arguments)
            while True:
                try:
                    sent = next(steps)
                except StopIteration:
                    return
                finally:
                    self._model.detach_device()
                self.crossed.append(sent)
                yield sent
                self._model.attach_device()

        return lent

"""Measures with several workers that Ray runs, here or on a cluster. The only file that imports it.

Ray Data hands a picture to whichever worker is free, and starts a worker that died again.
"""

from __future__ import annotations

import logging
import os
import socket
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# Before Ray is imported: its own processes print fatal errors alone, and send no usage statistics.
os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
# The token that Ray writes on its first start, and that a cluster may ask for.
if (Path.home() / ".ray" / "auth_token").is_file():
    os.environ.setdefault("RAY_AUTH_MODE", "token")

import ray
from ray.data import ActorPoolStrategy, DataContext
from ray.exceptions import RayError, RayTaskError

from spare_demo.evaluation.experiment import Experiment, Fitted
from spare_demo.evaluation.records import Key
from spare_demo.evaluation.run import PictureResults
from spare_demo.evaluation.sheets import Sheet
from spare_demo.evaluation.workers import Load, Worker, load_and_fit, pack, share_of_each, unpack

_SECONDS = 5.0  # to reach a cluster; Ray itself tries for two minutes
_RETRIES = 3  # of a picture whose worker died


class Workers:
    """Workers of a cluster, each with its own model.

    Attributes:
        count: how many.
        share: what each of them has, as Ray takes it: num_gpus or num_cpus.
        here: whether all of them run on this machine's processor.
    """

    def __init__(self, count: int, share: dict[str, int], load: Load, here: bool) -> None:
        self.count, self.share, self.here, self._load = count, share, here, load

    def fit(self, experiment: Experiment, leave_out: bool) -> Fitted:
        """What `fit` gives for the model that a worker loads. Raises what that raises."""
        if self.here:  # another process would load the libraries once more
            return load_and_fit(self._load, experiment, leave_out)
        # In a process that ends afterwards, so that its GPU's memory is free for the workers.
        task = ray.remote(max_calls=1, **self.share)(load_and_fit)
        try:
            return ray.get(task.remote(self._load, experiment, leave_out))
        except RayTaskError as error:
            raise error.cause from None
        except RayError as error:
            raise _death(error) from None

    def run(
        self,
        model: dict[str, str],
        sheets: Sequence[Sheet],
        experiment: Experiment,
        done: set[Key],
        skip: Callable[[str], None] | None = None,
    ) -> Iterator[PictureResults]:
        """What `run` gives, in the order in which the workers finish.

        model: as `fit` gave it; a worker that loads another one ends the run.
        """
        awaited = [sheet for sheet in sheets if (sheet.set, sheet.picture) not in done]
        if not awaited:
            return
        units = pack(awaited)
        context = DataContext.get_current()
        context.enable_progress_bars = context.print_on_execution_start = False
        logging.getLogger("ray.data").setLevel(logging.CRITICAL)
        with warnings.catch_warnings():
            # Ray has no other way yet to bound the retries.
            warnings.filterwarnings("ignore", ".*ray_remote_args", category=DeprecationWarning)
            outcomes = ray.data.from_items(units, override_num_blocks=len(units)).map_batches(
                Worker,
                fn_constructor_args=(self._load, model, experiment),
                batch_size=1,
                compute=ActorPoolStrategy(size=self.count),
                max_task_retries=_RETRIES,
                **self.share,
            )
        try:
            yield from unpack(outcomes.iter_rows(), awaited, skip)
        except RayTaskError:  # a fault of the program, with the worker's traceback
            raise
        except RayError as error:
            raise _death(error) from None


@contextmanager
def open_workers(count: int, address: str, device: str, load: Load) -> Iterator[Workers]:
    """Workers on a cluster, or on this machine; they end with the context.

    count: how many; each has a GPU of its own, or an equal share of the cores.
    address: "HOST:PORT" of a cluster's head; "": this machine alone.
    device: what the model is loaded on, "auto", "cpu", "cuda" or "mps".

    Raises ValueError: there is no such cluster, or no room on it for so many.
    """
    # By "local" Ray starts a cluster; else it would join whatever cluster runs on this machine.
    arguments: dict[str, Any] = {"address": "local", "include_dashboard": False}
    if address:
        _check_address(address)
        arguments = {"address": address}
    try:
        ray.init(**arguments, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError, SystemExit) as error:
        if address:
            raise ValueError(
                f"No Ray cluster answers at {address}. If it asks for a token, copy "
                "~/.ray/auth_token from its head to this machine."
            ) from None
        raise ValueError(f"Ray does not start here: {str(error).splitlines()[0]}") from None
    try:
        gpus = int(ray.cluster_resources().get("GPU", 0))
        alive = [node["Resources"] for node in ray.nodes() if node["Alive"]]
        machines = [int(resources.get("CPU", 0)) for resources in alive]
        share = share_of_each(count, device, gpus, machines)
        yield Workers(count, share, load, here=not address and "num_cpus" in share)
    finally:
        ray.shutdown()


def _death(error: RayError) -> ValueError:
    return ValueError(
        f"A worker died ({type(error).__name__}), most likely because its machine's memory was "
        "full. Ask for fewer with --workers; the same command resumes."
    )


def _check_address(address: str) -> None:
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host, int(port)), _SECONDS).close()
    except (OSError, ValueError, OverflowError):
        raise ValueError(
            f"There is no cluster at {address}. Give --address as HOST:PORT, as `ray start --head` "
            "prints it, or leave it out to use this machine."
        ) from None

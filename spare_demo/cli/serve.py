"""`spare-demo serve`: settings -> model -> page -> launch.

Its imports are of the standard library, so that a signal is obeyed while the heavy ones follow.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import errno
import functools
import gc
import importlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Iterator

from spare_demo.cli.temporary_files import own_temporary_folder
from spare_demo.settings import Settings, add_flags, on_zero_gpu
from spare_demo.threads import on_own_thread


def add_options(parser: argparse.ArgumentParser, settings: Settings) -> None:
    """A flag for every setting; one that is not given is not among the arguments."""
    parser.set_defaults(run=run, wrong=parser.error)
    parser.argument_default = argparse.SUPPRESS
    parser.epilog = "Every flag is also an environment variable: --max-pixels is SPARE_MAX_PIXELS."
    add_flags(parser)


def run(arguments: argparse.Namespace, settings: Settings) -> None:
    """Serve the page until it is stopped. Raises ValueError or ModelError with a sentence
    to show, and SystemExit 2 for a setting out of range.

    settings: from the environment; the flags among the arguments win over them.
    """
    names = {field.name for field in dataclasses.fields(Settings)}
    flags = {name: value for name, value in vars(arguments).items() if name in names}
    try:
        settings = dataclasses.replace(settings, **flags)
    except ValueError as error:
        arguments.wrong(str(error))  # exits with status 2, as for any wrong use
    # Garbage is collected once the page stands: looking for it while the libraries are imported
    # takes a tenth of the start.
    gc.disable()
    try:
        with until_stopped(), own_temporary_folder():
            _serve(settings)
    finally:
        gc.enable()


@contextlib.contextmanager
def until_stopped() -> Iterator[None]:
    """Runs the block. SIGTERM, SIGINT and the SIGHUP of a terminal that is closed are a
    KeyboardInterrupt in it, and where that leaves the block, the process ends with status 0.

    Process 1 of a container ignores a SIGTERM that it does not handle.
    """
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in a script's background
        hangup = getattr(signal, "SIGHUP", signal.SIGTERM)  # which Windows does not have
        if signal.getsignal(hangup) is signal.SIG_DFL:  # not under nohup
            signal.signal(hangup, signal.default_int_handler)
    try:
        yield
    except KeyboardInterrupt:
        # Python's own ending waits for every thread, takes apart every module, which is seconds of
        # work, and aborts where a thread is still in a pass.
        with contextlib.suppress(OSError):  # of a terminal that is closed
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(0)


def check_address(host: str, port: int) -> None:
    """Raises ValueError, with a sentence to show, where nothing can be served at an address."""
    name = host.strip("[]")
    try:
        family = socket.AF_INET6 if ":" in name else socket.AF_INET
        socket.create_server((name, port), family=family).close()
    except (OSError, TypeError, UnicodeError) as error:  # the latter of what can be no name
        number = getattr(error, "errno", None)
        if number == errno.EADDRINUSE:
            raise ValueError(f"Port {port} is not free. Choose another with --port.") from None
        if number == errno.EACCES:
            sentence = f"This user may not serve on port {port}. Choose 1024 or higher."
            raise ValueError(sentence) from None
        raise ValueError(
            f"{host} is not an address of this machine. Choose another with --host, such as "
            "127.0.0.1, or 0.0.0.0 for every network."
        ) from None


def settle_gradio() -> None:
    """Set what Gradio reads of the environment, some of it when it is imported.

    Raises ValueError, with a sentence to show, for a root path under which no request is answered.
    """
    root = os.environ.get("GRADIO_ROOT_PATH", "")
    if root and not root.startswith(("/", "http://", "https://")):
        raise ValueError(f"GRADIO_ROOT_PATH is {root!r}; it must begin with /, such as /{root}.")
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # no telemetry, no version check
    os.environ.pop("GRADIO_SERVER_NAME", None)  # where it would ask whether the port is free
    os.environ.pop("GRADIO_DEBUG", None)  # its `launch` would wait itself, and keep an interrupt


def _serve(settings: Settings) -> None:
    check_address(settings.host, settings.port)  # before the minutes that a model may take
    settle_gradio()
    borrowed = on_zero_gpu()
    if borrowed:
        # It puts CUDA out of this process's reach, on this thread alone, which must read all
        # weights; and before torch is imported, which would take a GPU that is not there.
        os.environ["HF_DEACTIVATE_ASYNC_LOAD"] = "1"
        import spaces

        print("A ZeroGPU Space: what needs the model borrows a GPU for as long as it runs.")
    else:
        # On another thread, where no interrupt is raised: the lazy modules of transformers would
        # take it for a failed import, and go on.
        on_own_thread(functools.partial(importlib.import_module, "spare_demo.ui"))
    from spare_demo.models import load_model
    from spare_demo.models.loading.catalogue import AUTO, BUILT_IN
    from spare_demo.models.loading.heap import share_heaps
    from spare_demo.models.loading.machine import later_model, this_machine
    from spare_demo.ui import serve
    from spare_demo.ui.borrowed_gpu import BorrowedGpu
    from spare_demo.ui.gradio_compat.operations import check_mcp
    from spare_demo.ui.times_log import show_times

    if settings.mcp:
        check_mcp()
    share_heaps()
    later = None
    if settings.model == AUTO:
        later = later_model(this_machine(settings.device), settings.bits)
    if later is not None:
        print(f"{later.title} takes minutes to load: {BUILT_IN.title} answers until it is loaded.")

    load = functools.partial(
        load_model,
        settings.model if later is None else BUILT_IN.name,
        settings.device,
        bits=settings.bits,
        report=print,
        language_model=not settings.without_language_model,
        system=settings.system,
        capture_prefill=settings.capture_prefill,
        warm_up=not borrowed,
    )
    model = load() if borrowed else on_own_thread(load)
    if settings.log_times:
        show_times()
    gpu = BorrowedGpu(model, settings, spaces.GPU) if borrowed else None
    serve(model, settings, gpu, later)

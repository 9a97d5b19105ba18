"""How a served page ends: in order and in time, whatever the server is at."""

from __future__ import annotations

import logging
import multiprocessing
import signal
import threading
import time

import gradio as gr

from spare_demo.ui.gradio_compat.server import stop_server

SECONDS = 4.0
"""What may be waited for in all; Docker kills what takes more than ten."""


def close_page(demo: gr.Blocks) -> None:
    """End the server and every thread of a page whose model begins no pass any more.

    Returns after `SECONDS` even where a thread takes longer. Further signals are ignored: the
    closing has an end of its own.
    """
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, signal.SIG_IGN)
    deadline = time.monotonic() + SECONDS
    # It would log a traceback for each page that is cut off.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    stop_server(demo, SECONDS / 2)
    for worker in multiprocessing.active_children():  # of a borrowed GPU; they hold nothing
        worker.kill()
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join(max(0.0, deadline - time.monotonic()))

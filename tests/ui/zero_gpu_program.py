"""`spare-demo serve` as a ZeroGPU Space runs it, with the package `spaces` and without a GPU.

Everything is the package's own, its forking worker, its pickling and its patched torch, but three
things: the service that lends GPUs answers here, and the two steps that touch CUDA in a worker,
which need a GPU, do nothing.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Lender(BaseHTTPRequestHandler):
    """The service that lends GPUs: yes to everything. Prints a line for each request."""

    def do_POST(self) -> None:
        print("LENDER", self.path, flush=True)
        answer = {"idle": True, "nvidiaIndex": 0, "nvidiaUUID": "none", "allowToken": "token"}
        body = json.dumps(answer).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        pass


def main(flags: list[str]) -> int:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Lender)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    os.environ["SPACES_ZERO_GPU"] = "true"
    os.environ["SPACES_ZERO_DEVICE_API_URL"] = f"http://127.0.0.1:{server.server_port}"
    import spaces.zero.torch

    spaces.zero.torch.init = lambda uuid: None
    spaces.zero.torch.move = lambda callback=None: None
    from spare_demo.cli.main import main as run

    return run(["serve", *flags])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

"""A hub on the loopback: serves folders as repositories of the Hugging Face hub, with its faults.

Small files are sent at once. Weights are redirected to another address, as the hub redirects them
to its CDN, and can be read by byte ranges. `HF_ENDPOINT` points huggingface_hub at it.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

_CHUNK = 1 << 20


@dataclass
class Faults:
    """What goes wrong, changed at any time.

    Attributes:
        status: of the answers, such as 503; 0 for none.
        path: a part of the paths that get it; all have "".
        cut_after: bytes of a file after which the connection is cut.
        cuts: how many more connections are cut.
        ignores_ranges: whether a request for a part gets the whole file.
        empty_parts: whether it gets no byte.
    """

    status: int = 0
    path: str = ""
    cut_after: int = 0
    cuts: int = 0
    ignores_ranges: bool = False
    empty_parts: bool = False


@dataclass
class LocalHub:
    """Repositories by name, each a folder; those of data sets by "datasets/OWNER/NAME".

    Attributes:
        faults: what goes wrong.
        bytes_sent: of bodies, so far.
        requests: "GET /path", in order.
    """

    repositories: Mapping[str, Path]
    faults: Faults = field(default_factory=Faults)
    bytes_sent: int = 0
    requests: list[str] = field(default_factory=list)

    def __enter__(self) -> LocalHub:
        hub = self

        class Handler(_Handler):
            served = hub

        self._servers = [_Server(("127.0.0.1", 0), Handler) for _ in range(2)]
        for server in self._servers:
            # It looks whether it is to end every so many seconds; by default half of one.
            threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    @property
    def url(self) -> str:
        """For `HF_ENDPOINT`."""
        return f"http://127.0.0.1:{self._servers[0].server_port}"

    @property
    def cdn(self) -> str:
        """Where weights are redirected to: another host to the hub's client."""
        return f"http://127.0.0.1:{self._servers[1].server_port}"

    def commit(self, repository: str) -> str:
        """The one commit of a repository, 40 hex digits; another one when a file changes."""
        digest = hashlib.sha1(repository.encode())
        folder = self.repositories[repository]
        for file in sorted(path for path in folder.rglob("*") if path.is_file()):
            digest.update(f"{file.relative_to(folder)} {file.stat().st_size}".encode())
        return digest.hexdigest()


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_: object) -> None:
        """Clients go as they like."""


class _Handler(BaseHTTPRequestHandler):
    served: LocalHub
    protocol_version = "HTTP/1.1"

    def do_HEAD(self) -> None:
        self._answer(with_body=False)

    def do_GET(self) -> None:
        self._answer(with_body=True)

    def log_message(self, *_: object) -> None:
        """Nothing on the terminal."""

    def _answer(self, with_body: bool) -> None:
        hub, path = self.served, unquote(urlsplit(self.path).path)
        hub.requests.append(f"{self.command} {path}")
        if hub.faults.status and hub.faults.path in path:
            self._error(hub.faults.status)
            return
        for name, folder in hub.repositories.items():
            api = f"/api/{name}" if name.startswith("datasets/") else f"/api/models/{name}"
            if path.startswith(api):
                self._api(name, folder, path.removeprefix(api))
                return
            if path.startswith(f"/{name}/resolve/"):
                revision, _, file = path.removeprefix(f"/{name}/resolve/").partition("/")
                self._resolve(name, folder, revision, file, with_body)
                return
            if path.startswith(f"/cdn/{name}/"):
                self._send_file(folder / path.removeprefix(f"/cdn/{name}/"), with_body, {})
                return
        self._error(401, "RepoNotFound")  # as the hub answers those who are not logged in

    def _api(self, name: str, folder: Path, rest: str) -> None:
        commit = self.served.commit(name)
        files = sorted(p for p in folder.rglob("*") if p.is_file())
        names = [p.relative_to(folder).as_posix() for p in files]
        if rest.startswith("/tree/"):
            tree = [
                {"type": "file", "path": n, "size": p.stat().st_size, "oid": _etag(p)}
                for n, p in zip(names, files, strict=True)
            ]
            self._json(tree)
            return
        revision = rest.removeprefix("/revision/") if rest.startswith("/revision/") else "main"
        if revision not in ("main", commit):
            self._error(404, "RevisionNotFound")
            return
        siblings = [{"rfilename": n} for n in names]
        self._json({"id": name, "modelId": name, "sha": commit, "siblings": siblings})

    def _resolve(self, name: str, folder: Path, revision: str, file: str, with_body: bool) -> None:
        commit, path = self.served.commit(name), folder / file
        if revision not in ("main", commit):
            self._error(404, "RevisionNotFound")
            return
        headers = {"X-Repo-Commit": commit}
        if not path.is_file():
            self._error(404, "EntryNotFound", headers)
            return
        if path.suffix == ".safetensors":
            headers |= {
                "Location": f"{self.served.cdn}/cdn/{name}/{file}",
                "X-Linked-Etag": f'"{_etag(path)}"',
                "X-Linked-Size": str(path.stat().st_size),
            }
            self.send_response(302)
            self._headers({**headers, "Content-Length": "0"})
            return
        self._send_file(path, with_body, headers)

    def _send_file(self, path: Path, with_body: bool, headers: dict[str, str]) -> None:
        faults, size = self.served.faults, path.stat().st_size
        start, stop, status = 0, size, 200
        wanted = self.headers.get("Range")
        if wanted and not faults.ignores_ranges:
            first, _, last = wanted.removeprefix("bytes=").partition("-")
            start, stop = int(first), min(size, int(last) + 1 if last else size)
            status = 206
            headers = {**headers, "Content-Range": f"bytes {start}-{stop - 1}/{size}"}
            if start >= size:
                self._error(416)
                return
            if faults.empty_parts:
                stop = start
        self.send_response(status)
        length = {"Content-Length": str(stop - start), "Accept-Ranges": "bytes"}
        self._headers({**headers, **length, "ETag": f'"{_etag(path)}"'})
        if with_body:
            self._send_bytes(path, start, stop)

    def _send_bytes(self, path: Path, start: int, stop: int) -> None:
        hub, sent = self.served, 0
        with path.open("rb") as file:
            file.seek(start)
            while start + sent < stop:
                faults = hub.faults
                most = min(_CHUNK, stop - start - sent)
                if faults.cuts:
                    most = min(most, max(0, faults.cut_after - sent))
                if most == 0:
                    faults.cuts -= 1
                    self.close_connection = True
                    return
                try:
                    self.wfile.write(file.read(most))
                except OSError:  # the client has gone
                    self.close_connection = True
                    return
                sent += most
                hub.bytes_sent += most

    def _json(self, value: object) -> None:
        body = json.dumps(value).encode()
        self.send_response(200)
        self._headers({"Content-Type": "application/json", "Content-Length": str(len(body))})
        if self.command == "GET":
            self.wfile.write(body)
            self.served.bytes_sent += len(body)

    def _error(self, status: int, code: str = "", headers: Mapping[str, str] | None = None) -> None:
        self.send_response(status)
        names = {"X-Error-Code": code} if code else {}
        self._headers({**(headers or {}), **names, "Content-Length": "0"})

    def _headers(self, headers: Mapping[str, str]) -> None:
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()


def _etag(path: Path) -> str:
    """Of its name and size: random weights of gigabytes are not read for it."""
    return hashlib.sha256(f"{path} {path.stat().st_size}".encode()).hexdigest()

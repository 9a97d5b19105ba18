"""Why something of the Hugging Face hub cannot be had, in a sentence that says what to do."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator

from huggingface_hub import constants
from huggingface_hub.errors import (
    CachedRepoTreeNotFoundError,
    GatedRepoError,
    HfHubHTTPError,
    LocalEntryNotFoundError,
    OfflineModeIsEnabled,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)
from safetensors import SafetensorError

from spare_demo.models.base import ModelError
from spare_demo.models.loading.catalogue import BUILT_IN

_NOT_WRITABLE = (errno.EACCES, errno.EPERM, errno.EROFS, errno.EEXIST, errno.ENOTDIR)
_LOG_IN = "log in with `hf auth login` on this machine, then try again"
# Sentences here are read on a terminal, after a start that failed, and on a page that runs.
_OR_ANOTHER = f"or choose the built-in model (on the command line: --model {BUILT_IN.name})."


def refusal(repository: str, error: Exception, begun: bool = False) -> Exception:
    """Why something of a repository cannot be had, in a sentence; other errors as they are.

    begun: whether the hub had answered, so that a lost connection is one that was cut.
    """
    chain = list(causes(error))
    for cause in chain:
        if isinstance(cause, ModelError):
            return cause
        if isinstance(cause, OSError) and cause.errno in (errno.ENOSPC, errno.EDQUOT):
            return ModelError(
                f"The disk filled up while {repository} was downloaded. Free some space, or set "
                "HF_HOME to a larger disk; files that were downloaded whole are kept."
            )
        if isinstance(cause, OSError) and cause.errno in _NOT_WRITABLE:
            return ModelError(
                f"{repository} could not be downloaded: what HF_HOME or HF_HUB_CACHE names is no "
                "folder, or this user has no right to write there. Give it to the user (a folder "
                "mounted into a container belongs to root at first), or name another one."
            )
        if isinstance(cause, OfflineModeIsEnabled):
            return ModelError(
                f"{repository} is not on this machine, and HF_HUB_OFFLINE is set. Start without it "
                f"to download the model, {_OR_ANOTHER}"
            )
        if isinstance(cause, HfHubHTTPError):
            return ModelError(_status(repository, cause))
        if isinstance(cause, CachedRepoTreeNotFoundError):
            return ModelError(
                f"The hub would not say which files {repository} has. Try again later, "
                f"{_OR_ANOTHER}"
            )
        # The hub's client raises the former of a file that is not as long as it was to be.
        if (type(cause) is OSError and cause.errno is None) or isinstance(cause, SafetensorError):
            return ModelError(
                f"What was downloaded of {repository} is damaged. {get_again(repository)}"
            )
    if begun and is_unreachable(error):
        return ModelError(
            f"The connection was lost while {repository} was downloaded. Check it and try again; "
            "files that were downloaded whole are kept."
        )
    if is_unreachable(error):
        return ModelError(
            f"{repository} is not on this machine, and {constants.ENDPOINT} cannot be reached. "
            f"Check the connection and try again, {_OR_ANOTHER}"
        )
    return error


def get_again(repository: str | None) -> str:
    """What to do about damaged files of a repository, or of a local folder."""
    if repository is None:
        return "Get the whole checkpoint again."
    return (
        f"Remove it from the Hugging Face cache with `hf cache rm model/{repository}`, then try "
        "again: it is downloaded anew."
    )


def is_missing_file(error: BaseException) -> bool:
    """Whether the hub said that there is no such file, or no such repository."""
    return isinstance(error, HfHubHTTPError) and error.response.status_code == 404


def is_overloaded(error: BaseException) -> bool:
    """Whether the hub took no request for now, or failed on its own side."""
    status = error.response.status_code if isinstance(error, HfHubHTTPError) else 0
    return status == 429 or status >= 500


def is_unreachable(error: BaseException) -> bool:
    """Whether the hub gave no answer at all, as where a page to log in to the network stands before
    it, or is not to be asked."""
    kinds = (OfflineModeIsEnabled, LocalEntryNotFoundError, json.JSONDecodeError)
    return any(is_transport(e) or isinstance(e, kinds) for e in causes(error))


def is_transport(error: BaseException) -> bool:
    """Whether the hub's client lost the connection, or was sent in a circle; versions of it use
    httpx or httpx2."""
    return any(
        kind.__name__ == "RequestError" and kind.__module__.startswith("httpx")
        for kind in type(error).__mro__
    )


def causes(error: BaseException | None) -> Iterator[BaseException]:
    """An error, and what it was raised from, and so on."""
    chain: list[BaseException] = []
    while error is not None and error not in chain:  # one raised from itself is its own cause
        chain.append(error)
        yield error
        error = error.__cause__ or error.__context__


def _status(repository: str, error: HfHubHTTPError) -> str:
    """What the hub's refusal means and what to do."""
    status = error.response.status_code
    if isinstance(error, GatedRepoError) or status == 403:
        return f"{repository} is gated: accept its terms on its page of the hub, {_LOG_IN}."
    if isinstance(error, RevisionNotFoundError):
        return f"{repository} has no such revision on the hub. Leave the revision out."
    if isinstance(error, RepositoryNotFoundError) or status == 401:
        return (
            f"The hub shows no repository {repository} to you: its name is another, or it is "
            f"private. Check the name, or {_LOG_IN}."
        )
    if status == 404:
        return f"{repository} lacks a file on the hub that a model needs. Choose another model."
    if status == 429:
        return (
            "The hub takes no more requests from this address for now. Wait some minutes, or "
            f"{_LOG_IN}."
        )
    if status >= 500:
        return f"The hub failed on its own side (error {status}). Try again later."
    return f"The hub refused a request (error {status}). Try again later, {_OR_ANOTHER}"

"""Errors of a command as an exit code, as one sentence and as one JSON object.

Exit codes are part of the interface: scripts depend on them.
"""

from __future__ import annotations

import contextlib
from enum import IntEnum
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class Exit(IntEnum):
    """The exit codes; 0 to 5 are the same as in the MCP Inspector's command line."""

    OK = 0
    INTERNAL = 1
    USAGE = 2
    AUTHORIZATION = 3
    CONNECT = 4
    TOOL = 5
    PROTOCOL = 6
    TIMEOUT = 7
    RPC = 8
    WORSE = 9
    INTERRUPTED = 130
    BROKEN_PIPE = 141


class UsageError(Exception):
    """The command line is invalid."""

    def __init__(self, message: str, *, suggestions: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.suggestions = tuple(suggestions)


@contextlib.contextmanager
def usage_errors(prefix: str = "") -> Iterator[None]:
    """Convert a `ValueError` to a usage error with a prefix before its text."""
    try:
        yield
    except ValueError as error:
        raise UsageError(f"{prefix}{error}") from error


class ServersFailed(Exception):
    """Some servers of a configuration failed; each is already reported."""

    def __init__(self, failed: tuple[str, ...], *, total: int) -> None:
        names = ", ".join(map(repr, failed))
        plural = "s" if total > 1 else ""
        super().__init__(f"{len(failed)} of {total} server{plural} failed: {names}")
        self.failed = failed


class OutputError(Exception):
    """Writing to standard output failed."""


class Interrupted(Exception):
    """A signal ended the command."""

    def __init__(self, number: int) -> None:
        super().__init__("interrupted")
        self.number = number


def close_matches(name: str, known: Sequence[str]) -> list[str]:
    """Return at most 3 known names that resemble a name, the closest first."""
    from difflib import get_close_matches

    by_folded = {_fold(other): other for other in known}
    folded = _fold(name)
    matches = get_close_matches(folded, by_folded, n=3, cutoff=0.6)
    matches += [
        other for other in by_folded if folded in other and other not in matches
    ]
    return [by_folded[other] for other in matches[:3]]


def _fold(name: str) -> str:
    return name.casefold().replace("_", "-")


def did_you_mean(suggestions: Sequence[str]) -> str:
    """Return the clause "; did you mean ...?", or an empty text."""
    if not suggestions:
        return ""
    return f"; did you mean {' or '.join(map(repr, suggestions))}?"


def unknown_name(
    problem: str, name: str, known: Sequence[str], fallback: str = ""
) -> UsageError:
    """Return the error of an unknown name, with similar names or other advice."""
    similar = close_matches(name, known)
    advice = did_you_mean(similar) or fallback
    return UsageError(f"{problem}{advice}", suggestions=similar)


def exit_code(error: BaseException) -> int:
    """Return the exit code of an error."""
    if isinstance(error, UsageError):
        return Exit.USAGE
    if isinstance(error, Interrupted):
        return 128 + error.number
    if isinstance(error, KeyboardInterrupt):
        return Exit.INTERRUPTED
    from mcpwire import errors

    table: tuple[tuple[type[BaseException], Exit], ...] = (
        (errors.LocalProtocolError, Exit.USAGE),
        (ServersFailed, Exit.CONNECT),
        (errors.GroupError, Exit.USAGE),  # an invalid configuration
        (errors.AuthError, Exit.AUTHORIZATION),
        (errors.TransportError, Exit.CONNECT),
        (errors.NegotiationError, Exit.CONNECT),
        (errors.ToolError, Exit.TOOL),
        (errors.CallCancelled, Exit.TOOL),  # a rejected input request, a cancelled task
        (errors.RemoteProtocolError, Exit.PROTOCOL),
        (errors.RequestTimeout, Exit.TIMEOUT),
        (errors.RPCError, Exit.RPC),
    )
    code = next(
        (code for kind, code in table if isinstance(error, kind)), Exit.INTERNAL
    )
    causes = [error]
    while (cause := causes[-1].__cause__) is not None:
        causes.append(cause)
    if any(map(_needs_credentials, causes)):
        return Exit.AUTHORIZATION
    if code is Exit.CONNECT and any(
        isinstance(cause, errors.RemoteProtocolError) for cause in causes
    ):
        return Exit.PROTOCOL  # the violation caused the end of the connection
    return code


def _needs_credentials(error: BaseException) -> bool:
    """Return whether a server at a URL refused the request for its credentials."""
    status = getattr(error, "status", None)
    headers = getattr(error, "headers", None) or {}
    # A 403 without a challenge has other causes, such as a wrong Origin.
    return status == 401 or (status == 403 and "www-authenticate" in headers)


def sentence(error: BaseException) -> str:
    """Return the error as one readable sentence, without a final period."""
    if isinstance(error, KeyboardInterrupt):
        return "interrupted"
    code = exit_code(error)
    if code == Exit.INTERNAL and not _is_explained(error):
        detail = f": {error}" if str(error) else ""
        return f"internal error: {type(error).__name__}{detail}; -v shows the traceback"
    text = str(error).replace('mode="session" connects', "--mode session connects")
    if code == Exit.USAGE:
        # Advice about methods of `Client` does not help at a prompt.
        text = text.partition("; `client.")[0]
    notes: list[str] = getattr(error, "__notes__", [])
    if code == Exit.TIMEOUT:
        notes = ["to change the limit: --timeout SECONDS", *notes]
    for note in notes:
        text += f" {note[:1].upper()}{note[1:]}" if text.endswith("?") else f"; {note}"
    return text


def _is_explained(error: BaseException) -> bool:
    """Return whether an error's text is written for users."""
    if isinstance(error, (UsageError, OutputError, ServersFailed, Interrupted)):
        return True
    from mcpwire.errors import MCPError

    return isinstance(error, MCPError)


def error_document(error: BaseException) -> dict[str, Any]:
    """Return the error as the member `error` of what ``--json`` prints."""
    document: dict[str, Any] = {
        "type": type(error).__name__,
        "exit": int(exit_code(error)),
        "message": sentence(error),
    }
    if _is_explained(error):
        details = {
            name: _to_json(value)
            for name, value in vars(error).items()
            if name not in {"message", "__notes__"} and value not in (None, (), "")
        }
        document |= {"details": details} if details else {}
    return document


def _to_json(value: Any) -> Any:
    """Convert a value to JSON; an object without a JSON form becomes its text."""
    if value is None or isinstance(value, (bool, int, float)):
        return value
    if isinstance(value, str):
        return getattr(value, "unexpanded", value)
    if isinstance(value, (list, tuple)):
        return [_to_json(item) for item in value]
    if isinstance(value, dict):
        # Reports are stored and shared, and a cookie works like a password.
        return {
            str(key): "***" if key == "set-cookie" else _to_json(item)
            for key, item in value.items()
        }
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    raw = getattr(value, "raw", None)
    return raw if isinstance(raw, dict) else str(value)

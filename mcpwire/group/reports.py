"""Reports, statuses, events and log records of a group's servers."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from mcpwire.wire.urls import mask_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.protocol.subscriptions import Notification

ServerState: TypeAlias = Literal[
    "idle", "connecting", "ready", "lost", "restarting", "failed", "needs_auth"
]
"""The state of a server of a group; see `ServerStatus.state`."""


MAX_TEXT_LENGTH: Final = 2_000
"""The maximum length, in characters, of a server's text in logs and reports."""


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_TEXT_LENGTH else f"{text[:MAX_TEXT_LENGTH]}..."


def format_error(error: BaseException) -> str:
    """Return an error as one line of text, whatever text its server sent."""
    text = _truncate(str(error))
    if not text.isprintable():
        # Terminal control sequences, or line breaks that would forge log lines.
        text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    return f"{type(error).__name__}: {text}"


@attrs.frozen
class GroupEvent:
    """A notification from one server of a group."""

    server: str
    """The name of the server in the group."""

    notification: Notification
    """The notification."""


@attrs.frozen(kw_only=True)
class Report:
    """The outcome of connecting servers; true if none failed.

    As text it has one line per server.
    """

    ok: tuple[str, ...] = ()
    """The names of the connected servers, in the given order."""

    failed: Mapping[str, Exception] = attrs.field(factory=dict)
    """The errors of the other servers by name, in the same order."""

    seconds: Mapping[str, float] = attrs.field(factory=dict)
    """The duration of each attempt, successful or not, without waiting for a slot."""

    def raise_for_errors(self) -> None:
        """Raise the first of the errors, in the order the servers were given."""
        for error in self.failed.values():
            raise error.with_traceback(None)

    def __bool__(self) -> bool:
        return not self.failed

    def __str__(self) -> str:
        lines = [f"{name}: connected{self._format_duration(name)}" for name in self.ok]
        lines += [
            f"{name}: {format_error(error)}" for name, error in self.failed.items()
        ]
        return "\n".join(lines) or "no servers"

    def _format_duration(self, name: str) -> str:
        return f" in {self.seconds[name]:.3f} s" if name in self.seconds else ""


@attrs.frozen(kw_only=True)
class ServerStatus:
    """A snapshot of the state of one server of a group."""

    server: str
    """Its name in the group."""

    state: ServerState
    """``idle``: not connected yet, or closed; ``lost``: the next call reconnects it;
    ``restarting``: it is being reconnected in the background; ``failed``: there are no
    further attempts in the background; ``needs_auth``: a user must log in."""

    since: float
    """The time of the last change of `state`, in seconds of `time.monotonic`."""

    error: Exception | None = None
    """The error because of which the server is not ready."""

    restarts: int = 0
    """The number of times that a lost connection was opened again."""

    calls: int = 0
    """The number of calls through the group; calls on `group[name]` do not count."""

    in_flight: int = 0
    """The number of pending calls through the group."""

    def __str__(self) -> str:
        why = "" if self.error is None else f" ({format_error(self.error)})"
        again = f", {self.restarts} restart(s)" if self.restarts else ""
        return f"{self.server}: {self.state}{why}, {self.calls} call(s){again}"


logger = logging.getLogger("mcpwire")

LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "notice": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}
"""Logging levels by MCP level; the levels that are missing are critical."""


def log_fields(
    server: str | None,
    *,
    error: BaseException | None = None,
    tool: str | None = None,
    uri: str | None = None,
    timeout: float | None = None,
    **others: Any,
) -> Mapping[str, Any]:
    """Return the extra fields of a log record."""
    return {
        "server": server,
        "tool": tool,
        "uri": mask_url(uri) if isinstance(uri, str) else None,
        "timeout": timeout if timeout is not None else getattr(error, "timeout", None),
        "error": None if error is None else format_error(error),
        **others,
    }


def log_server_message(server: str, params: Mapping[str, Any]) -> None:
    """Log a server's log message that no consumer gets, escaped and truncated."""
    level = params.get("level")
    python_level = LEVELS.get(level, logging.CRITICAL) if isinstance(level, str) else 0
    if not logger.isEnabledFor(python_level):
        return
    text = _truncate(repr(params.get("data")))
    extra = log_fields(server, logger=params.get("logger"))
    logger.log(python_level, "server %r logged: %s", server, text, extra=extra)


def warn(
    operation: str, server: str | None, error: BaseException, **details: Any
) -> None:
    """Log a warning: an operation on a server failed."""
    logger.warning(
        "server %r: %s failed: %s",
        server,
        operation,
        format_error(error),
        extra=log_fields(server, error=error, **details),
    )

"""What a group says of its servers: one report of connecting, one status of each."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from mcpwire.wire.urls import mask_url

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.protocol.subscriptions import Notification


__all__ = [
    "GroupEvent",
    "Report",
    "ServerState",
    "ServerStatus",
    "fields",
    "format_error",
    "logger",
    "relay",
    "warn",
]

ServerState: TypeAlias = Literal[
    "idle", "connecting", "ready", "lost", "restarting", "failed", "needs_auth"
]
"""What a server of a group is just now."""


LONGEST: Final = 2_000
"""How many characters of an error are shown."""


def format_error(error: BaseException) -> str:
    """Return an error as one line of a log, whatever its server put into it."""
    text = str(error)
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    if not shown.isprintable():
        # Some of it is for a terminal to obey, or looks like another line of the log.
        shown = "".join(c if c.isprintable() else repr(c)[1:-1] for c in shown)
    return f"{type(error).__name__}: {shown}"


@attrs.frozen
class GroupEvent:
    """Something that one server of a group told us without being asked."""

    server: str
    """The name of the server in the group."""

    notification: Notification
    """What it told."""


@attrs.frozen(kw_only=True)
class Report:
    """What came of connecting servers; true where all of them are connected.

    As text it has one line for each server that is connected or not.
    """

    ok: tuple[str, ...] = ()
    """Those that are connected, in the order they were given."""

    failed: Mapping[str, Exception] = attrs.field(factory=dict)
    """Why the others are not, in the same order."""

    seconds: Mapping[str, float] = attrs.field(factory=dict)
    """How long each took, to either end; without waiting for its turn."""

    def raise_for_errors(self) -> None:
        """Raise the first of the errors, in the order the servers were given."""
        for error in self.failed.values():
            raise error.with_traceback(None)

    def __bool__(self) -> bool:
        return not self.failed

    def __str__(self) -> str:
        lines = [f"{name}: connected{self._took(name)}" for name in self.ok]
        lines += [
            f"{name}: {format_error(error)}" for name, error in self.failed.items()
        ]
        return "\n".join(lines) or "no servers"

    def _took(self, name: str) -> str:
        return f" in {self.seconds[name]:.3f} s" if name in self.seconds else ""


@attrs.frozen(kw_only=True)
class ServerStatus:
    """One server of a group at one moment."""

    server: str
    """Its name in the group."""

    state: ServerState
    """``idle``: nothing was tried, or it was closed; ``lost``: the next call opens it
    again; ``restarting``: it is being opened again in the background; ``failed``:
    nobody tries any more; ``needs_auth``: somebody has to log in."""

    since: float
    """When that began, by the loop's clock (`loop.time`), in seconds."""

    error: Exception | None = None
    """Why it is not ready, where something went wrong."""

    restarts: int = 0
    """How often a lost connection was opened again."""

    calls: int = 0
    """Calls that went through the group; those on `group[name]` are not counted."""

    in_flight: int = 0
    """Those of them that are under way."""

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
"""What servers call them; what is above is critical here."""

EXCERPT: Final = 2_000
"""How much of a server's log message is logged."""


def fields(
    server: str | None,
    *,
    error: BaseException | None = None,
    tool: str | None = None,
    uri: str | None = None,
    timeout: float | None = None,
    **more: Any,
) -> Mapping[str, Any]:
    """Return the fields of one record."""
    return {
        "server": server,
        "tool": tool,
        "uri": mask_url(uri) if isinstance(uri, str) else None,
        "timeout": timeout if timeout is not None else getattr(error, "timeout", None),
        "error": None if error is None else format_error(error),
        **more,
    }


def relay(server: str, params: Mapping[str, Any]) -> None:
    """Log what a server logged, where nobody else hears it; escaped and cut."""
    level = params.get("level")
    number = LEVELS.get(level, logging.CRITICAL) if isinstance(level, str) else 0
    if not logger.isEnabledFor(number):
        return
    data, name = params.get("data"), params.get("logger")
    said = repr(data)
    said = said if len(said) <= EXCERPT else f"{said[:EXCERPT]}..."
    logger.log(
        number, "server %r logged: %s", server, said, extra=fields(server, logger=name)
    )


def warn(what: str, server: str | None, error: BaseException, **about: Any) -> None:
    """Say that something failed, and on which server."""
    logger.warning(
        "server %r: %s failed: %s",
        server,
        what,
        format_error(error),
        extra=fields(server, error=error, **about),
    )

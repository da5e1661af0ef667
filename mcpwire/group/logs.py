"""What a group logs: one line for each failure, with fields to search by.

Each record has the fields `server`, `tool`, `uri`, `timeout` and `error`, ``None``
where there is none. URLs are masked, and arguments and results are not logged. What is
a server's is escaped and cut: each record is one line.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Final

from mcpwire.group.reports import format_error
from mcpwire.wire.urls import mask_url

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["fields", "logger", "relay", "warn"]

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

"""Walking through the pages of a list, guarded against servers that never end it.

`pages` collects a whole list as one operation; `PageWalk` is the same walk for who
fetches pages one by one. Neither looks into a cursor or counts a page's items.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import (
    InvalidMessage,
    InvalidParams,
    LocalProtocolError,
    RemoteProtocolError,
)
from mcpwire.limits import DEFAULT_LIMITS
from mcpwire.protocol.methods import find
from mcpwire.protocol.steps import Call

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.protocol.steps import Steps

__all__ = ["CursorGoneError", "PageWalk", "next_cursor", "pages"]

_EXCERPT_CHARACTERS: Final = 60


class CursorGoneError(LocalProtocolError):
    """A cursor is of a session that is gone: thrown in where its page was asked for."""


def next_cursor(method: str, result: Mapping[str, Any]) -> str | None:
    """Return the cursor of the page after this one, or ``None`` after the last.

    Raises:
        InvalidMessage: The cursor is no string.
    """
    cursor = result.get("nextCursor")
    # 2026-07-28 server/utilities/pagination, "Implementation Guidelines": an empty
    # string is a cursor; only a missing one ends the list. Some servers write null.
    if cursor is None or type(cursor) is str:
        return cursor
    spec = find(method)
    name = (spec and spec.result) or "PaginatedResult"
    raise InvalidMessage(
        f"{name}.nextCursor", expected="str", got=type(cursor).__name__
    )


class PageWalk:
    """Where a walk through one list stands.

    Args:
        method: The request for one page.
        params: Its params; a ``cursor`` among them is where the walk begins.
        limit: The most pages that it takes.
    """

    __slots__ = ("_base", "_limit", "_method", "_pages", "_seen", "params")

    params: dict[str, Any] | None
    """The params that fetch the next page; ``None`` after the last one."""

    def __init__(
        self,
        method: str,
        params: Mapping[str, Any],
        *,
        limit: int = DEFAULT_LIMITS.pages,
    ) -> None:
        self._base = dict(params)
        self.params = dict(params)
        self._method = method
        self._limit = limit
        self._pages = 0
        self._seen = {params["cursor"]} if "cursor" in params else set()

    @property
    def at_start(self) -> bool:
        """Whether no page has come yet."""
        return self._pages == 0

    def receive(self, result: Mapping[str, Any]) -> None:
        """Move on: this is the page that `params` asked for.

        Raises:
            InvalidMessage: The cursor is no string.
            RemoteProtocolError: The cursor came before, or the list has more pages
                than the limit.
        """
        cursor = next_cursor(self._method, result)
        self._pages += 1
        if cursor is None:
            self.params = None
            return
        if cursor in self._seen:
            raise RemoteProtocolError(
                f"{self._method}: the cursor {_excerpt(cursor)} came twice",
                hint="the server's list would never end",
            )
        if self._pages >= self._limit:
            raise RemoteProtocolError(
                f"{self._method}: the list has more than {self._limit} pages",
                hint="raise Limits.pages if it is really that long",
            )
        self._seen.add(cursor)
        self.params = {**self._base, "cursor": cursor}


def _excerpt(cursor: str) -> str:
    if len(cursor) <= _EXCERPT_CHARACTERS:
        return repr(cursor)
    return f"{cursor[:_EXCERPT_CHARACTERS]!r}..."


def pages(
    method: str, params: Mapping[str, Any], *, limit: int = DEFAULT_LIMITS.pages
) -> Steps[list[dict[str, Any]]]:
    """Fetch all pages of a list and return their raw results in order.

    The list begins anew where its session is gone, for cursors do not outlive that
    (2025-11-25 server/utilities/pagination), and once where the server refuses a cursor
    that it gave.

    Raises:
        InvalidMessage: A cursor is no string.
        RemoteProtocolError: The list does not end.
    """
    walk = PageWalk(method, params, limit=limit)
    found: list[dict[str, Any]] = []
    restarted = False
    while walk.params is not None:
        try:
            result = yield Call(method, walk.params)
        except (InvalidParams, CursorGoneError):
            if restarted or walk.at_start:
                raise
            walk = PageWalk(method, params, limit=limit)
            found.clear()
            restarted = True
            continue
        walk.receive(result)
        found.append(result)
    return found

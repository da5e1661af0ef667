"""Asks a delegate for content after each successful call, and puts it in front.

Its failure never spoils a result: an error, or no answer in time, is no content.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from mcpwire.gateway.splicing import (
    DEFAULT_TAG,
    STYLES,
    PendingBatch,
    can_splice,
    check_tag,
    splice,
)
from mcpwire.limits import check_timeout
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable, Mapping

    from mcpwire.server.request import RequestContext

__all__ = ["ContentDelegate", "Splicer", "splicer_of"]

logger = LimitedLogger("mcpwire")

TIMEOUT_S: Final = 30.0
"""How long a delegate may take, unless somebody says otherwise."""


class ContentDelegate(Protocol):
    """Has content for those who call tools."""

    async def read_pending(
        self, headers: Mapping[str, str], session_id: str | None
    ) -> PendingBatch | None:
        """Return what waits for whoever called; ``None``: nothing.

        Called once after each successful call, one after the other for one session;
        what it raises is logged and means nothing. It may be cancelled.

        Args:
            headers: The call's header fields by lower-case name; no credentials.
            session_id: The session, which is a secret; ``None`` where there is none.
        """


class Splicer:
    """How a gateway asks its delegate; see the module's text.

    Args:
        delegate: Who has content.
        style: ``"flat"``: rows one after the other; ``"separated"``: with an empty
            line between them.
        tag: What the content is wrapped in.
        skip_on_tool_error: Whether results with `isError` are left alone.
        timeout: How long the delegate may take, in seconds; ``None``: no limit.

    Attributes:
        withheld: Names, in lower case, of fields that the delegate does not see.

    Raises:
        TypeError: The delegate is none.
        ValueError: An option is wrong.
    """

    def __init__(
        self,
        delegate: ContentDelegate,
        *,
        style: str = "flat",
        tag: str = DEFAULT_TAG,
        skip_on_tool_error: bool = False,
        timeout: float | None = TIMEOUT_S,
    ) -> None:
        if not callable(getattr(delegate, "read_pending", None)):
            raise TypeError(
                f"a delegate needs read_pending(headers, session_id), got {delegate!r}"
            )
        if style not in STYLES:
            raise ValueError(f"style must be one of {', '.join(STYLES)}, got {style!r}")
        self.delegate = delegate
        self._style = style
        self._tag = check_tag(tag)
        self._skips_errors = skip_on_tool_error
        self._timeout = check_timeout(timeout)
        self.withheld: frozenset[str] = frozenset()
        self._locks: dict[Hashable, tuple[asyncio.Lock, int]] = {}

    async def splice(
        self, result: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        """Return the result of a call, with what waits in front of it.

        Cancelling it leaves what was read undelivered: it is not confirmed then.
        """
        if not can_splice(result):
            return result
        if self._skips_errors and result.get("isError") is True:
            return result
        # Those that stand alone wait for nobody: who they are of is not known here.
        session = request.session
        if session is None:
            return await self._spliced(result, request)
        lock, users = self._locks.get(session, (None, 0))
        if lock is None:
            lock = asyncio.Lock()
        self._locks[session] = lock, users + 1
        try:
            async with lock:
                return await self._spliced(result, request)
        finally:
            lock, users = self._locks.pop(session)
            if users > 1:
                self._locks[session] = lock, users - 1

    async def _spliced(
        self, result: dict[str, Any], request: RequestContext
    ) -> dict[str, Any]:
        session = request.session
        id = session.id if session is not None else None
        try:
            async with asyncio.timeout(self._timeout):
                batch = await self.delegate.read_pending(self._shown(request), id)
            if batch is None:
                return result
            # What cannot be sent must not cost the result.
            encode([batch.token, [list(row) for row in batch.rows]])
            spliced = splice(result, batch, style=self._style, tag=self._tag)
        except asyncio.CancelledError:
            # It may have been waiting for something that was cancelled, not we.
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            logger.exception("the delegate failed; the result stays as it is")
            return result
        except Exception:  # whatever the delegate raises
            logger.exception("the delegate failed; the result stays as it is")
            return result
        return spliced

    def _shown(self, request: RequestContext) -> Mapping[str, str]:
        """Return the fields of a request that a delegate may see."""
        fields = request.info.headers
        if not self.withheld:
            return fields
        return {k: v for k, v in fields.items() if k.lower() not in self.withheld}


def splicer_of(given: Any, *, withheld: Iterable[str] = ()) -> Splicer | None:
    """Return how a gateway asks what it was given as its delegate.

    Args:
        given: A delegate, or a `Splicer`; ``None``: there is none.
        withheld: Names, in lower case, of fields that it does not see: they hold
            credentials for servers.

    Raises:
        TypeError: It is no delegate.
    """
    if given is None:
        return None
    splicer = given if isinstance(given, Splicer) else Splicer(given)
    splicer.withheld |= frozenset(withheld)
    return splicer

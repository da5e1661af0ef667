"""One list of one server, fetched by one task, whoever waits, and kept.

A change while it is fetched has it fetched once more: a reader never gets what was
fetched before a change that it could have heard of. A list that fails is left out until
somebody asks again a while later.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import MCPError, RemoteProtocolError
from mcpwire.gateway.lists.extras import extras_of
from mcpwire.gateway.merging import Listed, listed
from mcpwire.protocol.methods import find
from mcpwire.protocol.multistep import pages
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import Collection

    from mcpwire.gateway.upstream import Upstream

__all__ = ["ServerList"]

logger = LimitedLogger("mcpwire")

MAX_LIST: Final = 16 * 1024 * 1024
"""How long all pages of one list may be together, in bytes of JSON: they are kept."""

RETRY_S: Final = 5.0
"""How long a server whose list failed is left alone."""


class ServerList:
    """One list of one server; see the module's text.

    Args:
        upstream: The server.
        method: What asks for one page.
        as_tools: What else there is as tools, in the list of these: ``"resources"``,
            ``"prompts"``, both or nothing.

    Attributes:
        upstream: As given.
        wanted: Counts its changes.
        got: Which of them is here; -1: none yet.
        found: What it lists; ``None``: it failed.
    """

    __slots__ = (
        "_as_tools",
        "_method",
        "_retry_at",
        "_task",
        "found",
        "got",
        "upstream",
        "wanted",
    )

    def __init__(
        self, upstream: Upstream, method: str, as_tools: Collection[str]
    ) -> None:
        self.upstream = upstream
        self._method = method
        self._as_tools = as_tools
        self._task: asyncio.Task[None] | None = None
        self._retry_at = 0.0
        self.wanted = 0
        self.got = -1
        self.found: Listed | None = None

    @property
    def is_fresh(self) -> bool:
        """Whether what is here is what there is, as far as we know."""
        if self.got < self.wanted:
            return False
        if self.found is not None:
            return True
        return asyncio.get_running_loop().time() < self._retry_at

    async def refresh(self) -> None:
        """Have it as it was when this was called, or later."""
        if self.got >= self.wanted:
            self.wanted += 1  # it failed, and may go better now
        wanted = self.wanted
        while self.got < wanted:
            if self._task is None:
                self._task = asyncio.get_running_loop().create_task(
                    self._fetch(), name="mcpwire-list"
                )
            # Whoever waits may leave; the others still want it.
            await asyncio.wait((self._task,))

    async def _fetch(self) -> None:
        upstream, version = self.upstream, self.wanted
        try:
            async with asyncio.timeout(upstream.timeout):
                found = await self._pages()
        except (MCPError, OSError) as error:
            self.found = None
            self._retry_at = asyncio.get_running_loop().time() + RETRY_S
            upstream.problems[self._method] = error
            logger.warning(
                "%s of the server %r is left out: %s",
                self._method,
                upstream.name,
                error,
                kind=(self._method, upstream.name),
                extra={"server": upstream.name, "error": error},
            )
        else:
            self.found = found
            upstream.problems.pop(self._method, None)
        finally:
            self.got, self._task = version, None

    async def _pages(self) -> Listed:
        """Fetch all pages, as they come."""
        upstream, method = self.upstream, self._method
        if self._as_tools and not upstream.offers(method.partition("/")[0]):
            return Listed(
                server=upstream.name,
                is_bare=upstream.planned.is_bare,
                rules=upstream.planned.rules,
                extras=tuple(self._extras()),
            )
        steps = pages(method, {}, limit=upstream.limits.pages)
        planned, room = upstream.planned, MAX_LIST
        spec = find(method)
        assert spec is not None
        assert spec.list_key is not None
        try:
            step: Any = next(steps)
            while True:
                try:
                    result = await upstream.client.request(
                        method, dict(step.params), timeout=upstream.timeout
                    )
                except MCPError as error:
                    step = steps.throw(error)
                else:
                    room -= len(encode(result))
                    if room < 0:
                        raise RemoteProtocolError(
                            f"{method}: the list has more than {MAX_LIST} bytes"
                        )
                    step = steps.send(result)
        except StopIteration as done:
            return listed(
                upstream.name,
                done.value,
                spec.list_key,
                is_bare=planned.is_bare,
                rules=planned.rules,
                extras=self._extras(),
            )

    def _extras(self) -> list[dict[str, Any]]:
        wanted = self._as_tools if self._method == "tools/list" else ()
        return extras_of(self.upstream, wanted)

    def close(self) -> None:
        """Fetch nothing more."""
        if self._task is not None:
            self._task.cancel()

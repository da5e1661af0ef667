"""A delegate that keeps what waits for each agent until its delivery is confirmed.

::

    notify ──► waiting ──read_pending──► pending, under a token ──confirm──► confirmed
                  ▲                              │
                  └────── unregister, register ──┘    so it is delivered again

What was read is not read again until the agent is registered anew: whoever runs the
agent finds the token in what the model was given, and confirms it. What was lost on the
way is delivered again in the next run: at least once, and never claimed without proof.
"""

from __future__ import annotations

import asyncio
from itertools import count
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import attrs

from mcpwire.gateway.splicing import PendingBatch
from mcpwire.limits import check_timeout
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.wire.json import encode

if TYPE_CHECKING:
    from collections.abc import (
        Awaitable,
        Callable,
        Hashable,
        Iterable,
        Mapping,
        Sequence,
    )

    Row = Sequence[tuple[Hashable, Mapping[str, Any]]]
    """One message: its content blocks, each with the id that confirms it."""

    Backend = Callable[[str], Awaitable[Sequence[Row]]]
    """Returns all rows of an agent that may still have to be delivered."""

__all__ = ["QueueDelegate"]

logger = LimitedLogger("mcpwire")

HEADER: Final = "X-Agent-Id"

TIMEOUT_S: Final = 30.0
"""How long a backend may take, unless somebody says otherwise."""

MAX_ROWS: Final = 1_024
"""How many rows may wait for one agent."""


MAX_CONFIRMED: Final = 65_536
"""How many ids of what was delivered are remembered for one agent, the newest."""


@attrs.define
class _Agent:
    confirmed: dict[Hashable, None] = attrs.field(factory=dict)
    pending: dict[str, tuple[Hashable, ...]] = attrs.field(factory=dict)
    rows: list[Row] = attrs.field(factory=list)

    def confirm(self, ids: Iterable[Hashable]) -> None:
        """Remember what was delivered, and let go of what was delivered whole."""
        self.confirmed.update(dict.fromkeys(ids))
        self.rows = [
            row for row in self.rows if any(id not in self.confirmed for id, _ in row)
        ]
        while len(self.confirmed) > MAX_CONFIRMED:
            del self.confirmed[next(iter(self.confirmed))]


class QueueDelegate:
    """Rows of content for agents, in memory or from a backend; see the module's text.

    An agent is named by a header field of the call. What is confirmed goes; rows of a
    backend that are confirmed, or were read and are not, are left out.

    Args:
        header: The field that names the agent; its case does not matter.
        backend: Where rows come from, beside those of `notify`.
        timeout: How long it may take, in seconds; ``None``: no limit.
        max_rows: How many rows of `notify` may wait for one agent.
        max_agents: How many agents there may be.

    Raises:
        ValueError: An option is wrong.
    """

    def __init__(
        self,
        *,
        header: str = HEADER,
        backend: Backend | None = None,
        timeout: float | None = TIMEOUT_S,
        max_rows: int = MAX_ROWS,
        max_agents: int = 10_000,
    ) -> None:
        self.header = header.lower()
        self._backend = backend
        self._timeout = check_timeout(timeout)
        self._max_rows = max_rows
        self._max_agents = max_agents
        self._agents: dict[str, _Agent] = {}
        self._ids = count(1)

    # Who runs agents...

    def register(self, agent: str, confirmed: Iterable[Hashable] = ()) -> None:
        """Begin a run of an agent, for whom those ids are delivered already.

        What an earlier run read and did not confirm is delivered again.

        Raises:
            ValueError: There are too many agents.
        """
        if agent not in self._agents and len(self._agents) >= self._max_agents:
            raise ValueError(f"there may be {self._max_agents} agents at most")
        known = self._agents.setdefault(agent, _Agent())
        known.pending.clear()
        known.confirm(confirmed)

    def unregister(self, agent: str, *, forget: bool = False) -> None:
        """End a run of an agent; what was not confirmed is delivered in the next one.

        Args:
            agent: The agent; one that nobody knows is fine.
            forget: Whether there is no next one: nothing is kept of it then.
        """
        if forget:
            self._agents.pop(agent, None)
        elif (known := self._agents.get(agent)) is not None:
            known.pending.clear()

    def confirm(self, token: str) -> tuple[Hashable, ...]:
        """Take note that what was read under a token arrived; return the ids of it.

        A second time, or for a token that nobody knows, it is nothing.
        """
        for known in self._agents.values():
            ids = known.pending.pop(token, None)
            if ids is not None:
                known.confirm(ids)
                return ids
        return ()

    # Who has something to say...

    def notify(self, agent: str, *blocks: Mapping[str, Any]) -> bool:
        """Add a row for an agent; tell whether it is registered, else nothing is kept.

        Raises:
            LocalProtocolError: A block has no JSON form.
            ValueError: Too many rows wait for it.
        """
        known = self._agents.get(agent)
        if known is None:
            return False
        encode([dict(block) for block in blocks])
        if len(known.rows) >= self._max_rows:
            raise ValueError(f"{self._max_rows} rows wait for the agent already")
        if blocks:
            known.rows.append(tuple((next(self._ids), block) for block in blocks))
        return True

    def is_waiting(self, agent: str) -> bool:
        """Tell whether something of `notify` waits for an agent."""
        known = self._agents.get(agent)
        return known is not None and bool(_fresh(known, known.rows))

    def drain(self, agent: str) -> list[list[Mapping[str, Any]]] | None:
        """Return what waits for an agent, as delivered; ``None``: nobody knows it."""
        known = self._agents.get(agent)
        if known is None:
            return None
        rows = _fresh(known, known.rows)
        taken = {id for row in rows for id, _ in row}
        known.rows = [row for row in known.rows if taken.isdisjoint(i for i, _ in row)]
        return [[block for _, block in row] for row in rows]

    # The gateway...

    async def read_pending(
        self,
        headers: Mapping[str, str],
        session_id: str | None,
    ) -> PendingBatch | None:
        """Return what waits for the agent that called, under a new token.

        ``None`` where nothing does, where the backend fails, or does not answer in
        time.
        """
        agent = _find(headers, self.header)
        known = None if agent is None else self._agents.get(agent)
        if agent is None or known is None:
            return None
        rows = [*await self._read(agent), *known.rows]
        fresh = _fresh(known, rows)
        if not fresh:
            return None
        token = str(uuid4())
        known.pending[token] = tuple(id for row in fresh for id, _ in row)
        return PendingBatch(token, [[block for _, block in row] for row in fresh])

    async def _read(self, agent: str) -> Sequence[Row]:
        if self._backend is None:
            return ()
        try:
            async with asyncio.timeout(self._timeout):
                return await self._backend(agent)
        except Exception:  # whatever the backend raises
            logger.exception("the backend of the delegate failed")
            return ()


def _fresh(known: _Agent, rows: Iterable[Row]) -> list[Row]:
    """Return what of some rows was not delivered, and is not on its way."""
    taken = {id for ids in known.pending.values() for id in ids}
    taken.update(known.confirmed)
    fresh = [tuple(each for each in row if each[0] not in taken) for row in rows]
    return [row for row in fresh if row]


def _find(headers: Mapping[str, str], name: str) -> str | None:
    for key, value in headers.items():
        if key.lower() == name:
            return value
    return None

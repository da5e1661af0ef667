"""Ends sessions at servers that another process of ours has opened."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from mcpwire.limits import DEFAULT_RECOVERY
from mcpwire.transports.http.target import Http
from mcpwire.versions import LATEST_SESSION
from mcpwire.wire.headers import is_session_id

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.gateway.plan import Plan
    from mcpwire.limits import Limits

__all__ = ["end_sessions"]


class _Deaf:
    """Hears what a server may say while its session ends: nothing that matters."""

    def notification(self, *_: Any) -> None: ...

    def request(self, *_: Any) -> None: ...

    def cancelled(self, *_: Any) -> None: ...

    def missed(self) -> None: ...

    def lost(self, *_: Any) -> None: ...


async def end_sessions(plan: Plan, sessions: Mapping[str, str], limits: Limits) -> None:
    """Tell servers that sessions are over, all at once; two seconds at most.

    Whatever they answer is fine: a session that is not ended ends when it is idle.

    Args:
        plan: Where the servers are.
        sessions: The session of each, by its name.
        limits: Bounds on what they may answer.
    """
    await asyncio.gather(
        *(
            _end_session(each.target, sessions[each.name], limits)
            for each in plan.servers
            if each.name in sessions and isinstance(each.target, Http)
        )
    )


async def _end_session(target: Http, id: str, limits: Limits) -> None:
    if not is_session_id(id):
        return
    from mcpwire.transports.http.engine import open_engine
    from mcpwire.transports.http.streamable import HttpChannel

    engine = open_engine(target, limits, None)
    channel = HttpChannel(
        target, engine, _Deaf(), limits=limits, recovery=DEFAULT_RECOVERY
    )
    channel.revision = LATEST_SESSION
    channel._heads.session_id = id  # noqa: SLF001 - no handshake will tell it
    # Closing a channel is what tells a server that its session is over.
    await channel.aclose()

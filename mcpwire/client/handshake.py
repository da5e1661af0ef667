"""Negotiation over an asyncio channel.

`mcpwire.protocol.negotiation` decides each step. This module sends requests in
parallel, measures the time without a reply, and reopens a connection that ends. If all
attempts fail, it raises one error that describes them.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

from mcpwire.errors import (
    ConnectError,
    HTTPError,
    LocalProtocolError,
    MCPError,
    RequestTimeout,
    SessionExpired,
    TransportError,
)
from mcpwire.protocol import negotiation
from mcpwire.versions import Era

if TYPE_CHECKING:
    from collections.abc import Iterable

    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.negotiation import Agreement
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.oauth.authorizer import DeadlinePauser
    from mcpwire.transports.targets import ChannelOpener, OpenChannel
    from mcpwire.versions import Revision


class Handshake:
    """Driver of the negotiation generator: sends, waits, and reopens the channel."""

    def __init__(self, opener: ChannelOpener, inbound: Inbound, started: float) -> None:
        self._opener = opener
        self._inbound = inbound
        self._loop = asyncio.get_running_loop()
        self._started = started
        self._tasks: set[asyncio.Task[None]] = set()
        self._replies: asyncio.Queue[negotiation.Answer | Exception] = asyncio.Queue()
        self._replaced: OpenChannel | None = None
        self.channel: OpenChannel | None = None
        self.is_legacy = False
        self.last_method = "initialize"

    async def drive(self, steps: negotiation.Steps[Agreement]) -> Agreement:
        """Open the first connection and run the negotiation to its end."""
        memory = self._opener.memory
        if memory is not None and memory.legacy:
            memory.legacy = await self._downgrade() is None
        if self.channel is None:
            self.channel = self._opener.open(self._inbound)
        try:
            step = next(steps)
            while True:
                step = steps.send(await self._perform_step(step))
        except StopIteration as done:
            agreement: Agreement = done.value
        await self._cancel_calls()
        self.channel.revision = agreement.revision
        return agreement

    async def _perform_step(self, step: negotiation.Step) -> Any:
        channel = self.channel
        assert channel is not None
        if type(step) is negotiation.Send:
            self.last_method = step.method
            sending = self._send(channel, step.method, step.params)
            task = self._loop.create_task(sending)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif type(step) is negotiation.Receive:
            return await self._receive(step.timeout)
        elif type(step) is negotiation.Notify:
            await self._cancel_calls()
            channel.revision = step.revision
            await channel.notify(step.method)
        elif type(step) is negotiation.Downgrade:
            return await self._downgrade()
        else:
            assert type(step) is negotiation.Reopen
            await self.reset()
            self.channel = self._opener.open(self._inbound)
        return None

    async def _downgrade(self) -> MCPError | None:
        """Replace the channel by HTTP+SSE; return the error if that is impossible."""
        open_legacy = self._opener.open_legacy
        if open_legacy is None or self.is_legacy:
            return LocalProtocolError("no other transport to try")
        await self._cancel_calls()
        legacy = open_legacy(self._inbound)
        old, self.channel = self.channel, legacy
        self._replaced = old
        try:
            await legacy.ready()
        except MCPError as error:
            await legacy.aclose()
            self.channel, self._replaced = old, None
            return error
        self.is_legacy = True
        self._replaced = None
        if old is not None:
            await old.aclose()
        return None

    async def reset(self) -> None:
        """Close the channel, so that another one can be opened."""
        await self._cancel_calls()
        self._replies = asyncio.Queue()
        if self.channel is not None:
            await self.channel.aclose()
            self.channel = None
            self.is_legacy = False

    async def _send(
        self, channel: OpenChannel, method: str, params: dict[str, Any]
    ) -> None:
        outcome: dict[str, Any] | MCPError
        try:
            outcome = await channel.call(method, params, deadline=None)
        except MCPError as error:
            # The traceback's frames would keep the error and a blocking client alive.
            outcome = error.with_traceback(None)
        except Exception as error:  # noqa: BLE001 - headers' function may raise any
            self._replies.put_nowait(error)
            return
        at = self._loop.time() - self._started
        self._replies.put_nowait(negotiation.Answer(method, outcome, at))

    async def _receive(
        self, timeout: float | None
    ) -> negotiation.Answer | negotiation.ReceiveTimeout:
        try:
            async with asyncio.timeout(timeout) as scope:
                with pause_for_login(self._opener.pauser, scope):
                    reply = await self._replies.get()
        except TimeoutError:
            return negotiation.ReceiveTimeout(self._loop.time() - self._started)
        if isinstance(reply, Exception):
            raise reply
        return reply

    async def _cancel_calls(self) -> None:
        """Cancel pending calls; before the agreement the server is not notified."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks)

    @property
    def channels(self) -> list[OpenChannel]:
        """The channels that are open."""
        opened = (self.channel, self._replaced)
        return [channel for channel in opened if channel is not None]

    async def discard(self) -> None:
        """Close all channels, in bounded time, even while being cancelled."""
        for task in self._tasks:
            task.cancel()
        for channel in self.channels:
            closing = self._loop.create_task(channel.aclose())
            while not closing.done():
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([closing])


def pause_for_login(
    pauser: DeadlinePauser | None,
    scope: asyncio.Timeout,
    deadline: Deadline | None = None,
) -> contextlib.AbstractContextManager[None]:
    """Return a context in which logins pause a timeout scope and a call's deadline."""
    if pauser is None:
        return contextlib.nullcontext()
    return pauser.register(deadline, scope)


def connect_failure(
    error: BaseException,
    channel: OpenChannel | None,
    *,
    method: str,
    timeout: float | None,
    elapsed: float,
    allowed: Iterable[Revision],
) -> MCPError | None:
    """Convert a failure of connecting for the caller; ``None``: raise it unchanged."""
    advice = ""
    if method == negotiation.DISCOVER and any(
        revision.era is Era.SESSION for revision in allowed
    ):
        advice = 'mode="session" connects without this probe'
    if isinstance(error, HTTPError) and error.status >= 500 and advice:
        error.args = (f"{error.args[0]}; {advice}",)
    if isinstance(error, (ConnectError, HTTPError, SessionExpired)):
        return None
    if isinstance(error, TransportError):
        return _connect_error(error, channel, advice)
    if isinstance(error, MCPError) or not isinstance(error, TimeoutError):
        return None
    if timeout is None:
        return None
    timeout_error = _connect_error(None, channel)
    return RequestTimeout(
        method=method,
        timeout=timeout,
        elapsed=elapsed,
        detail=str(timeout_error)
        if timeout_error.noise or timeout_error.stderr_tail.strip()
        else advice or None,
    )


def _connect_error(
    error: TransportError | None, channel: OpenChannel | None, advice: str = ""
) -> ConnectError:
    """Build the `ConnectError` of a failed handshake, with the channel's details."""
    lost = channel.lost if channel is not None else None
    if isinstance(lost, ConnectError):
        return lost  # the transport's own error is more precise
    target = channel.target if channel is not None else None
    reason = str(error.args[0]) if error is not None else "no answer to the handshake"
    # HTTP errors start with the target, and errors of a closed connection name it.
    is_named = reason.startswith((str(target), f"the connection to {target} "))
    prefix = f"{target}: " if target and not is_named else ""
    text = f"{prefix}the handshake failed: {reason}" if error else f"{prefix}{reason}"
    return ConnectError(
        f"{text}; {advice}" if advice else text,
        target=target,
        exit_code=getattr(channel, "exit_code", None),
        stderr_tail=getattr(channel, "stderr_tail", ""),
        noise=tuple(channel.stats.noise_lines) if channel is not None else (),
    )

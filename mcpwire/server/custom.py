"""Serves one client over what the user opened: a byte stream, or single messages.

The other end is a client with a `Stream` or `Messages` target, or one that waits for us
with a `Reverse`: who opened the connection makes no difference to the protocol.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire.server.connection import ServerConnection
from mcpwire.transports.custom import Custom, LinkChannel, Messages, Stream

if TYPE_CHECKING:
    import asyncio

    from mcpwire.server.dispatcher import Dispatcher
    from mcpwire.transports.custom import CloseFn, ReceiveFn, SendFn

__all__ = ["serve", "serve_messages", "serve_stream"]

ANSWER_GRACE_S: Final = 0.2
"""How long handlers may go on after the end of what comes."""

CANCEL_GRACE_S: Final = 0.2
"""How long they may take to end once they are cancelled."""


async def serve_stream(
    dispatcher: Dispatcher, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Serve one client over a byte stream until it closes that.

    The framing is that of stdio: one JSON text per line. What was asked before the end
    is still answered, if that takes a moment only. Cancelling it cancels the handlers
    and closes the stream, in bounded time.
    """
    await serve(dispatcher, Stream((reader, writer), name="a stream"))


async def serve_messages(
    dispatcher: Dispatcher,
    send: SendFn,
    receive: ReceiveFn,
    *,
    close: CloseFn | None = None,
    form: str = "bytes",
) -> None:
    """Serve one client over single messages.

    It returns when `receive` comes to the end, or either function raises. Cancelling it
    cancels the handlers and closes, in bounded time.

    Args:
        dispatcher: Who answers.
        send: Takes one message; plain or async.
        receive: An async function that returns one message: a ``dict``, ``str`` or
            bytes. ``None``, `EOFError` and `StopAsyncIteration` are the end.
        close: Called once when it is over; plain or async.
        form: What `send` takes: ``"bytes"``, ``"text"`` or ``"dict"``.

    Raises:
        ValueError: One of them is wrong.
    """
    await serve(dispatcher, Messages(send, receive, close=close, form=form))


async def serve(dispatcher: Dispatcher, target: Custom) -> None:
    """Serve one client over the connection of a target until that ends."""
    kind = type(target).__name__.lower()
    connection = ServerConnection(dispatcher, transport=kind)
    channel = LinkChannel(
        connection,
        target.open_link,
        role="server",
        limits=dispatcher.limits,
        target=target.name,
    )
    channel.at_end = connection.ended.set
    connection.attach(channel)
    try:
        await connection.ended.wait()
        await connection.settle(ANSWER_GRACE_S)
    finally:
        await connection.aclose(CANCEL_GRACE_S)

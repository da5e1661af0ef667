"""How a client is told that the server behind a gateway failed it.

What that server answered goes through as it is. What went wrong on the way to it has no
JSON-RPC code of its own, so it becomes an internal error that says what it was, to a
reader in its message and to a program in its data.
"""

from __future__ import annotations

from typing import Any, Final

from mcpwire.errors import (
    ConnectionClosed,
    InternalError,
    InvalidParams,
    LocalProtocolError,
    MCPError,
    RequestTimeout,
    RPCError,
    rpc_error,
)

__all__ = ["CANCELLED", "passed_error"]

CANCELLED: Final = -32800
"""The code that ends a request which its client has cancelled."""


def passed_error(server: str, method: str, error: MCPError) -> RPCError:
    """Return the answer for a request that failed with that error.

    Args:
        server: The name of the server behind.
        method: The request.
        error: What it failed with.
    """
    if isinstance(error, RPCError):
        # A new one: an exception keeps its traceback, and whatever that holds.
        return rpc_error(error.code, error.message, data=error.data)
    if isinstance(error, LocalProtocolError):
        # What cannot be written has no place in a message, and nothing was sent.
        return InvalidParams(f"{method} cannot be sent to {server!r}: {error}")
    data: dict[str, Any] = {"server": server, "error": type(error).__name__}
    if isinstance(error, RequestTimeout):
        data["timeout"] = error.timeout
        sentence = f"{server!r} did not answer {method} within {error.timeout:g} s"
    else:
        if isinstance(error, ConnectionClosed):
            data["sent"] = error.sent
        sentence = f"{server!r} failed {method}: {error}"
    return InternalError(sentence, data=data)

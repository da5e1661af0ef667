"""The Model Context Protocol for Python, written from the wire up.

::

    async with mcpwire.Client("uvx mcp-server-time") as client:
        result = await client.call_tool("get_current_time", {"timezone": "UTC"})

Names are imported when they are first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from mcpwire._version import __version__

if TYPE_CHECKING:
    from mcpwire import types
    from mcpwire.client import CallOptions, Client
    from mcpwire.errors import (
        AuthError,
        CallCancelled,
        ConnectError,
        ConnectionClosed,
        GroupError,
        HeaderMismatch,
        HTTPError,
        InternalError,
        InvalidMessage,
        InvalidParams,
        InvalidRequest,
        LocalProtocolError,
        MCPError,
        MessageTooLarge,
        MethodNotFound,
        MissingCapability,
        NegotiationError,
        ParseError,
        ProtocolError,
        RemoteProtocolError,
        RequestTimeout,
        ResourceNotFound,
        RPCError,
        SessionExpired,
        ToolError,
        TransportError,
        UnsupportedVersion,
        UrlElicitationRequired,
    )
    from mcpwire.limits import Limits
    from mcpwire.protocol.negotiation import Negotiation
    from mcpwire.protocol.notifications import Notification
    from mcpwire.transports.client.stats import ClientStats
    from mcpwire.transports.stdio.target import Stdio
    from mcpwire.versions import REVISIONS, Era, Revision

_EXPORTS: Final = {
    "mcpwire.client": ("CallOptions", "Client"),
    "mcpwire.errors": (
        "AuthError",
        "CallCancelled",
        "ConnectError",
        "ConnectionClosed",
        "GroupError",
        "HTTPError",
        "HeaderMismatch",
        "InternalError",
        "InvalidMessage",
        "InvalidParams",
        "InvalidRequest",
        "LocalProtocolError",
        "MCPError",
        "MessageTooLarge",
        "MethodNotFound",
        "MissingCapability",
        "NegotiationError",
        "ParseError",
        "ProtocolError",
        "RPCError",
        "RemoteProtocolError",
        "RequestTimeout",
        "ResourceNotFound",
        "SessionExpired",
        "ToolError",
        "TransportError",
        "UnsupportedVersion",
        "UrlElicitationRequired",
    ),
    "mcpwire.limits": ("Limits",),
    "mcpwire.protocol.negotiation": ("Negotiation",),
    "mcpwire.protocol.notifications": ("Notification",),
    "mcpwire.transports.client.stats": ("ClientStats",),
    "mcpwire.transports.stdio.target": ("Stdio",),
    "mcpwire.versions": ("REVISIONS", "Era", "Revision"),
}

_MODULE_OF: Final = {
    name: module for module, names in _EXPORTS.items() for name in names
}

__all__ = [
    "REVISIONS",
    "AuthError",
    "CallCancelled",
    "CallOptions",
    "Client",
    "ClientStats",
    "ConnectError",
    "ConnectionClosed",
    "Era",
    "GroupError",
    "HTTPError",
    "HeaderMismatch",
    "InternalError",
    "InvalidMessage",
    "InvalidParams",
    "InvalidRequest",
    "Limits",
    "LocalProtocolError",
    "MCPError",
    "MessageTooLarge",
    "MethodNotFound",
    "MissingCapability",
    "Negotiation",
    "NegotiationError",
    "Notification",
    "ParseError",
    "ProtocolError",
    "RPCError",
    "RemoteProtocolError",
    "RequestTimeout",
    "ResourceNotFound",
    "Revision",
    "SessionExpired",
    "Stdio",
    "ToolError",
    "TransportError",
    "UnsupportedVersion",
    "UrlElicitationRequired",
    "__version__",
    "types",
]


def __getattr__(name: str) -> Any:
    """Import a public name with its first use."""
    if name == "types":
        return importlib.import_module("mcpwire.types")
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'mcpwire' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what is public."""
    return sorted(__all__)

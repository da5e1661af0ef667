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
    from mcpwire import config, sync, types
    from mcpwire.auth.config import (
        ClientCredentials,
        EnterpriseManaged,
        OAuth,
        WorkloadIdentity,
    )
    from mcpwire.auth.errors import (
        AuthRequired,
        AuthTemporarilyUnavailable,
        ConsentDenied,
        DiscoveryError,
        InsufficientScope,
        RegistrationError,
        ResponseRefused,
        TokenError,
        UrlRefused,
    )
    from mcpwire.auth.records import Login, LoginStatus
    from mcpwire.client import CallOptions, Client
    from mcpwire.client.client import resolve_links
    from mcpwire.client.connection import ClientStats
    from mcpwire.client.login import (
        begin_login,
        finish_login,
        login,
        login_status,
        logout,
    )
    from mcpwire.client.requests import PendingCall
    from mcpwire.client.skills import LoadedSkill
    from mcpwire.client.streams import (
        EventStream,
        ResourceWatch,
        Subscription,
    )
    from mcpwire.client.tasks import (
        cancel_task,
        get_task,
        list_tasks,
        start_task,
        update_task,
        wait_for_task,
    )
    from mcpwire.errors import (
        AuthError,
        CallCancelled,
        ConfigError,
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
        NameCollision,
        NeedsConfirmation,
        NegotiationError,
        NotAllowed,
        ParseError,
        ProtocolError,
        RemoteProtocolError,
        RequestTimeout,
        ResourceNotFound,
        RPCError,
        SessionExpired,
        ToolError,
        TooManyQuestions,
        TransportError,
        UnknownServer,
        UnknownTool,
        UnsupportedVersion,
        UrlElicitationRequired,
    )
    from mcpwire.gateway import Gateway
    from mcpwire.group import Backoff, Group, GroupEvent, Member, NotConnected
    from mcpwire.limits import Limits, Recovery
    from mcpwire.protocol.cache import ResponseCache
    from mcpwire.protocol.client_features import Elicitation, Sampling
    from mcpwire.protocol.negotiation import Negotiation
    from mcpwire.protocol.skills import SkillError
    from mcpwire.protocol.subscriptions import Filter, Notification
    from mcpwire.server.app import Server
    from mcpwire.server.asking.context import Context, current_context
    from mcpwire.server.asking.elicited import Elicited
    from mcpwire.server.asking.state import MemorySingleUse
    from mcpwire.server.auth.introspection import IntrospectionVerifier
    from mcpwire.server.auth.jwt import JwtVerifier
    from mcpwire.server.auth.principal import Principal
    from mcpwire.server.auth.resource import ResourceServer
    from mcpwire.server.auth.verifiers import ApiKeys, StaticTokens
    from mcpwire.server.authoring.content import Audio, File, Image
    from mcpwire.server.authoring.fields import Arg
    from mcpwire.server.authoring.injection import Depends
    from mcpwire.server.extensions.skills import Skills
    from mcpwire.server.extensions.tasks import Tasks
    from mcpwire.tools import ToolCall, ToolLock, ToolSet, ToolTransform, ToolView
    from mcpwire.tools.names import NamePolicy
    from mcpwire.transports.custom import Messages, Reverse, Stream
    from mcpwire.transports.http.target import Http
    from mcpwire.transports.oauth.storage import (
        FileStorage,
        MemoryStorage,
        Storage,
        StorageError,
    )
    from mcpwire.transports.targets import Stdio
    from mcpwire.versions import REVISIONS, Era, Revision

_EXPORTS: Final = {
    "mcpwire.auth.config": (
        "ClientCredentials",
        "EnterpriseManaged",
        "OAuth",
        "WorkloadIdentity",
    ),
    "mcpwire.auth.errors": (
        "AuthRequired",
        "AuthTemporarilyUnavailable",
        "ConsentDenied",
        "DiscoveryError",
        "InsufficientScope",
        "RegistrationError",
        "ResponseRefused",
        "TokenError",
        "UrlRefused",
    ),
    "mcpwire.auth.records": ("Login", "LoginStatus"),
    "mcpwire.client": ("CallOptions", "Client"),
    "mcpwire.client.client": ("resolve_links",),
    "mcpwire.client.login": (
        "begin_login",
        "finish_login",
        "login",
        "login_status",
        "logout",
    ),
    "mcpwire.client.skills": ("LoadedSkill",),
    "mcpwire.client.tasks": (
        "cancel_task",
        "get_task",
        "list_tasks",
        "start_task",
        "update_task",
        "wait_for_task",
    ),
    "mcpwire.errors": (
        "AuthError",
        "CallCancelled",
        "ConfigError",
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
        "NameCollision",
        "NeedsConfirmation",
        "NegotiationError",
        "NotAllowed",
        "ParseError",
        "ProtocolError",
        "RPCError",
        "RemoteProtocolError",
        "RequestTimeout",
        "ResourceNotFound",
        "SessionExpired",
        "TooManyQuestions",
        "ToolError",
        "TransportError",
        "UnknownServer",
        "UnknownTool",
        "UnsupportedVersion",
        "UrlElicitationRequired",
    ),
    "mcpwire.limits": ("Limits", "Recovery"),
    "mcpwire.protocol.client_features": ("Elicitation", "Sampling"),
    "mcpwire.protocol.negotiation": ("Negotiation",),
    "mcpwire.protocol.subscriptions": ("Filter", "Notification"),
    "mcpwire.protocol.cache": ("ResponseCache",),
    "mcpwire.protocol.skills": ("SkillError",),
    "mcpwire.server.app": ("Server",),
    "mcpwire.server.asking.context": ("Context", "current_context"),
    "mcpwire.server.asking.elicited": ("Elicited",),
    "mcpwire.server.asking.state": ("MemorySingleUse",),
    "mcpwire.server.auth.introspection": ("IntrospectionVerifier",),
    "mcpwire.server.auth.jwt": ("JwtVerifier",),
    "mcpwire.server.auth.principal": ("Principal",),
    "mcpwire.server.auth.resource": ("ResourceServer",),
    "mcpwire.server.auth.verifiers": ("ApiKeys", "StaticTokens"),
    "mcpwire.server.authoring.content": ("Audio", "File", "Image"),
    "mcpwire.server.authoring.fields": ("Arg",),
    "mcpwire.server.authoring.injection": ("Depends",),
    "mcpwire.server.extensions.skills": ("Skills",),
    "mcpwire.server.extensions.tasks": ("Tasks",),
    "mcpwire.client.requests": ("PendingCall",),
    "mcpwire.client.connection": ("ClientStats",),
    "mcpwire.client.streams": (
        "EventStream",
        "ResourceWatch",
        "Subscription",
    ),
    "mcpwire.transports.http.target": ("Http",),
    "mcpwire.transports.oauth.storage": (
        "FileStorage",
        "MemoryStorage",
        "Storage",
        "StorageError",
    ),
    "mcpwire.transports.targets": ("Stdio",),
    "mcpwire.tools.names": ("NamePolicy",),
    "mcpwire.tools": ("ToolCall", "ToolLock", "ToolSet", "ToolTransform", "ToolView"),
    "mcpwire.gateway": ("Gateway",),
    "mcpwire.group": ("Backoff", "Group", "GroupEvent", "Member", "NotConnected"),
    "mcpwire.transports.custom": ("Messages", "Reverse", "Stream"),
    "mcpwire.versions": ("REVISIONS", "Era", "Revision"),
}

_MODULE_OF: Final = {
    name: module for module, names in _EXPORTS.items() for name in names
}

__all__ = [
    "REVISIONS",
    "ApiKeys",
    "Arg",
    "Audio",
    "AuthError",
    "AuthRequired",
    "AuthTemporarilyUnavailable",
    "Backoff",
    "CallCancelled",
    "CallOptions",
    "Client",
    "ClientCredentials",
    "ClientStats",
    "ConfigError",
    "ConnectError",
    "ConnectionClosed",
    "ConsentDenied",
    "Context",
    "Depends",
    "DiscoveryError",
    "Elicitation",
    "Elicited",
    "EnterpriseManaged",
    "Era",
    "EventStream",
    "File",
    "FileStorage",
    "Filter",
    "Gateway",
    "Group",
    "GroupError",
    "GroupEvent",
    "HTTPError",
    "HeaderMismatch",
    "Http",
    "Image",
    "InsufficientScope",
    "InternalError",
    "IntrospectionVerifier",
    "InvalidMessage",
    "InvalidParams",
    "InvalidRequest",
    "JwtVerifier",
    "Limits",
    "LoadedSkill",
    "LocalProtocolError",
    "Login",
    "LoginStatus",
    "MCPError",
    "Member",
    "MemorySingleUse",
    "MemoryStorage",
    "MessageTooLarge",
    "Messages",
    "MethodNotFound",
    "MissingCapability",
    "NameCollision",
    "NamePolicy",
    "NeedsConfirmation",
    "Negotiation",
    "NegotiationError",
    "NotAllowed",
    "NotConnected",
    "Notification",
    "OAuth",
    "ParseError",
    "PendingCall",
    "Principal",
    "ProtocolError",
    "RPCError",
    "Recovery",
    "RegistrationError",
    "RemoteProtocolError",
    "RequestTimeout",
    "ResourceNotFound",
    "ResourceServer",
    "ResourceWatch",
    "ResponseCache",
    "ResponseRefused",
    "Reverse",
    "Revision",
    "Sampling",
    "Server",
    "SessionExpired",
    "SkillError",
    "Skills",
    "StaticTokens",
    "Stdio",
    "Storage",
    "StorageError",
    "Stream",
    "Subscription",
    "Tasks",
    "TokenError",
    "TooManyQuestions",
    "ToolCall",
    "ToolError",
    "ToolLock",
    "ToolSet",
    "ToolTransform",
    "ToolView",
    "TransportError",
    "UnknownServer",
    "UnknownTool",
    "UnsupportedVersion",
    "UrlElicitationRequired",
    "UrlRefused",
    "WorkloadIdentity",
    "__version__",
    "begin_login",
    "cancel_task",
    "config",
    "current_context",
    "finish_login",
    "get_task",
    "list_tasks",
    "login",
    "login_status",
    "logout",
    "resolve_links",
    "start_task",
    "sync",
    "types",
    "update_task",
    "wait_for_task",
]


def __getattr__(name: str) -> Any:
    """Import a public name with its first use."""
    if name in {"config", "sync", "types"}:
        return importlib.import_module(f"mcpwire.{name}")
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module 'mcpwire' has no attribute {name!r}")
    value = getattr(importlib.import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List what is public."""
    return sorted(__all__)

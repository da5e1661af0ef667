"""The Model Context Protocol for Python, written from the wire up.

::

    async with mcpwire.Client("uvx mcp-server-time") as client:
        result = await client.call_tool("get_current_time", {"timezone": "UTC"})

Names are imported on first use.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any, Final

from mcpwire._package import __version__ as __version__
from mcpwire._package import lazy_names

if TYPE_CHECKING:
    from mcpwire import config as config
    from mcpwire import sync as sync
    from mcpwire import types as types
    from mcpwire.auth.config import ClientCredentials as ClientCredentials
    from mcpwire.auth.config import EnterpriseManaged as EnterpriseManaged
    from mcpwire.auth.config import OAuth as OAuth
    from mcpwire.auth.config import WorkloadIdentity as WorkloadIdentity
    from mcpwire.auth.errors import *
    from mcpwire.auth.records import Login as Login
    from mcpwire.auth.records import LoginStatus as LoginStatus
    from mcpwire.client import CallOptions as CallOptions
    from mcpwire.client import Client as Client
    from mcpwire.client.client import resolve_links as resolve_links
    from mcpwire.client.connection import ClientStats as ClientStats
    from mcpwire.client.login import begin_login as begin_login
    from mcpwire.client.login import finish_login as finish_login
    from mcpwire.client.login import login as login
    from mcpwire.client.login import login_status as login_status
    from mcpwire.client.login import logout as logout
    from mcpwire.client.requests import PendingCall as PendingCall
    from mcpwire.client.skills import LoadedSkill as LoadedSkill
    from mcpwire.client.streams import EventStream as EventStream
    from mcpwire.client.streams import ResourceWatch as ResourceWatch
    from mcpwire.client.streams import Subscription as Subscription
    from mcpwire.client.tasks import cancel_task as cancel_task
    from mcpwire.client.tasks import get_task as get_task
    from mcpwire.client.tasks import list_tasks as list_tasks
    from mcpwire.client.tasks import start_task as start_task
    from mcpwire.client.tasks import update_task as update_task
    from mcpwire.client.tasks import wait_for_task as wait_for_task
    from mcpwire.errors import *
    from mcpwire.gateway import Gateway as Gateway
    from mcpwire.group import Backoff as Backoff
    from mcpwire.group import Group as Group
    from mcpwire.group import GroupEvent as GroupEvent
    from mcpwire.group import Member as Member
    from mcpwire.group import NotConnected as NotConnected
    from mcpwire.limits import Limits as Limits
    from mcpwire.limits import Recovery as Recovery
    from mcpwire.protocol.cache import ResponseCache as ResponseCache
    from mcpwire.protocol.client_features import Elicitation as Elicitation
    from mcpwire.protocol.client_features import Sampling as Sampling
    from mcpwire.protocol.negotiation import Negotiation as Negotiation
    from mcpwire.protocol.skills import SkillError as SkillError
    from mcpwire.protocol.subscriptions import Filter as Filter
    from mcpwire.protocol.subscriptions import Notification as Notification
    from mcpwire.server.auth.resource_server import Principal as Principal
    from mcpwire.server.auth.resource_server import ResourceServer as ResourceServer
    from mcpwire.server.auth.verifiers import ApiKeys as ApiKeys
    from mcpwire.server.auth.verifiers import (
        IntrospectionVerifier as IntrospectionVerifier,
    )
    from mcpwire.server.auth.verifiers import JwtVerifier as JwtVerifier
    from mcpwire.server.auth.verifiers import StaticTokens as StaticTokens
    from mcpwire.server.authoring.injection import Depends as Depends
    from mcpwire.server.authoring.results import Audio as Audio
    from mcpwire.server.authoring.results import File as File
    from mcpwire.server.authoring.results import Image as Image
    from mcpwire.server.authoring.schemas import Arg as Arg
    from mcpwire.server.context import Context as Context
    from mcpwire.server.context import Elicited as Elicited
    from mcpwire.server.context import current_context as current_context
    from mcpwire.server.extensions.skills import Skills as Skills
    from mcpwire.server.extensions.tasks import Tasks as Tasks
    from mcpwire.server.input_rounds import MemorySingleUse as MemorySingleUse
    from mcpwire.server.server import Server as Server
    from mcpwire.tools import ToolCall as ToolCall
    from mcpwire.tools import ToolLock as ToolLock
    from mcpwire.tools import ToolSet as ToolSet
    from mcpwire.tools import ToolTransform as ToolTransform
    from mcpwire.tools import ToolView as ToolView
    from mcpwire.tools.names import NamePolicy as NamePolicy
    from mcpwire.transports.custom import Messages as Messages
    from mcpwire.transports.custom import Reverse as Reverse
    from mcpwire.transports.custom import Stream as Stream
    from mcpwire.transports.http.target import Http as Http
    from mcpwire.transports.oauth.storage import FileStorage as FileStorage
    from mcpwire.transports.oauth.storage import MemoryStorage as MemoryStorage
    from mcpwire.transports.oauth.storage import Storage as Storage
    from mcpwire.transports.oauth.storage import StorageError as StorageError
    from mcpwire.transports.targets import Stdio as Stdio
    from mcpwire.versions import REVISIONS as REVISIONS
    from mcpwire.versions import Era as Era
    from mcpwire.versions import Revision as Revision

_SUBPACKAGES: Final = ("config", "sync", "types")

_MODULES: Final = {
    "auth.config": "ClientCredentials EnterpriseManaged OAuth WorkloadIdentity",
    "auth.errors": """
        AuthRequired AuthTemporarilyUnavailable ConsentDenied DiscoveryError
        InsufficientScope RegistrationError ResponseRefused TokenError
        UrlRefused
    """,
    "auth.records": "Login LoginStatus",
    "client": "CallOptions Client",
    "client.client": "resolve_links",
    "client.connection": "ClientStats",
    "client.login": "begin_login finish_login login login_status logout",
    "client.requests": "PendingCall",
    "client.skills": "LoadedSkill",
    "client.streams": "EventStream ResourceWatch Subscription",
    "client.tasks": """
        cancel_task get_task list_tasks start_task update_task wait_for_task
    """,
    "errors": """
        AuthError CallCancelled ConfigError ConnectError ConnectionClosed
        GroupError HTTPError HeaderMismatch InternalError InvalidMessage
        InvalidParams InvalidRequest LocalProtocolError MCPError MessageTooLarge
        MethodNotFound MissingCapability NameCollision NeedsConfirmation
        NegotiationError NotAllowed ParseError ProtocolError RPCError
        RemoteProtocolError RequestTimeout ResourceNotFound SessionExpired
        TooManyQuestions ToolError TransportError UnknownServer UnknownTool
        UnsupportedVersion UrlElicitationRequired
    """,
    "gateway": "Gateway",
    "group": "Backoff Group GroupEvent Member NotConnected",
    "limits": "Limits Recovery",
    "protocol.cache": "ResponseCache",
    "protocol.client_features": "Elicitation Sampling",
    "protocol.negotiation": "Negotiation",
    "protocol.skills": "SkillError",
    "protocol.subscriptions": "Filter Notification",
    "server.server": "Server",
    "server.context": "Context Elicited current_context",
    "server.input_rounds": "MemorySingleUse",
    "server.auth.resource_server": "Principal ResourceServer",
    "server.auth.verifiers": "ApiKeys IntrospectionVerifier JwtVerifier StaticTokens",
    "server.authoring.results": "Audio File Image",
    "server.authoring.schemas": "Arg",
    "server.authoring.injection": "Depends",
    "server.extensions.skills": "Skills",
    "server.extensions.tasks": "Tasks",
    "tools": "ToolCall ToolLock ToolSet ToolTransform ToolView",
    "tools.names": "NamePolicy",
    "transports.custom": "Messages Reverse Stream",
    "transports.http.target": "Http",
    "transports.oauth.storage": "FileStorage MemoryStorage Storage StorageError",
    "transports.targets": "Stdio",
    "versions": "Era REVISIONS Revision",
}
"""The public names of each module."""

_load, __dir__, __all__ = lazy_names(__name__, _MODULES, *_SUBPACKAGES, "__version__")

if not TYPE_CHECKING:  # a type checker would take any name for a public one

    def __getattr__(name: str) -> Any:
        """Import a public name on first use."""
        if name in _SUBPACKAGES:
            return importlib.import_module(f"mcpwire.{name}")
        return _load(name)

"""Capabilities, and the messages that initialize a connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import attrs

from mcpwire.types._base import BareResult, CacheableResult, PlainParams, WireObject

if TYPE_CHECKING:
    from mcpwire.types._base import JsonObject, Spec, Title
    from mcpwire.types.content import Icon


# --- capabilities; unknown ones are kept in `extra`


class RootsCapability(WireObject):
    """The client can list its roots."""

    list_changed: Annotated[bool | None, Spec(until="2025-11-25")] = None


class SamplingCapability(WireObject):
    """The client can request messages from its model."""

    context: Annotated[JsonObject | None, Spec("2025-11-25")] = None
    tools: Annotated[JsonObject | None, Spec("2025-11-25")] = None


class ElicitationCapability(WireObject):
    """The client can request input from its user; without a mode, by forms only."""

    form: Annotated[JsonObject | None, Spec("2025-11-25")] = None
    url: Annotated[JsonObject | None, Spec("2025-11-25")] = None


class ClientTaskRequests(WireObject):
    """The requests that a client can run as tasks (2025-11-25 only)."""

    elicitation: JsonObject | None = None
    sampling: JsonObject | None = None


class ClientTasksCapability(WireObject):
    """The client can run requests as tasks (2025-11-25 only)."""

    list: JsonObject | None = None
    cancel: JsonObject | None = None
    requests: ClientTaskRequests | None = None


class ClientCapabilities(WireObject):
    """The features of a client; absent ones are not supported."""

    roots: RootsCapability | None = None
    sampling: SamplingCapability | None = None
    elicitation: Annotated[ElicitationCapability | None, Spec("2025-06-18")] = None
    tasks: Annotated[
        ClientTasksCapability | None, Spec("2025-11-25", until="2025-11-25")
    ] = None
    experimental: dict[str, JsonObject] | None = None
    extensions: Annotated[dict[str, JsonObject] | None, Spec("2026-07-28")] = None
    """The settings of the enabled extensions by their identifiers."""


class ToolsCapability(WireObject):
    """The server has tools."""

    list_changed: bool | None = None


class ResourcesCapability(WireObject):
    """The server has resources."""

    subscribe: bool | None = None
    list_changed: bool | None = None


class PromptsCapability(WireObject):
    """The server has prompts."""

    list_changed: bool | None = None


class ServerTaskRequests(WireObject):
    """The requests that a server can run as tasks (2025-11-25 only)."""

    tools: JsonObject | None = None


class ServerTasksCapability(WireObject):
    """The server can run requests as tasks (2025-11-25 only)."""

    list: JsonObject | None = None
    cancel: JsonObject | None = None
    requests: ServerTaskRequests | None = None


class ServerCapabilities(WireObject):
    """The features of a server; absent ones are not supported."""

    tools: ToolsCapability | None = None
    resources: ResourcesCapability | None = None
    prompts: PromptsCapability | None = None
    completions: Annotated[JsonObject | None, Spec("2025-03-26")] = None
    logging: JsonObject | None = None
    tasks: Annotated[
        ServerTasksCapability | None, Spec("2025-11-25", until="2025-11-25")
    ] = None
    experimental: dict[str, JsonObject] | None = None
    extensions: Annotated[dict[str, JsonObject] | None, Spec("2026-07-28")] = None
    """The settings of the supported extensions by their identifiers."""


# --- initialization


class Implementation(WireObject):
    """The name and version of a program, for display only."""

    name: str
    version: str
    title: Title = None
    description: Annotated[str | None, Spec("2025-11-25")] = None
    website_url: Annotated[str | None, Spec("2025-11-25")] = None
    icons: Annotated[list[Icon] | None, Spec("2025-11-25")] = None


class InitializeRequestParams(PlainParams):
    """Parameters of `initialize` (until 2025-11-25)."""

    protocol_version: str
    client_info: Implementation
    capabilities: Annotated[ClientCapabilities, Spec(required=True)] = attrs.field(
        factory=ClientCapabilities
    )


class InitializeResult(BareResult):
    """The result of `initialize` (until 2025-11-25)."""

    protocol_version: str
    capabilities: Annotated[ServerCapabilities, Spec(required=True)] = attrs.field(
        factory=ServerCapabilities
    )
    server_info: Annotated[Implementation | None, Spec(required=True)] = None
    instructions: str | None = None


class DiscoverResult(CacheableResult):
    """The result of `server/discover` (2026-07-28); `meta` has the server's name."""

    supported_versions: list[str]
    capabilities: Annotated[ServerCapabilities, Spec(required=True)] = attrs.field(
        factory=ServerCapabilities
    )
    instructions: str | None = None

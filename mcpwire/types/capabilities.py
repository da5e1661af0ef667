"""What the two sides declare that they can do; the sets are open on purpose."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import attrs

from mcpwire.types._codec.base import WireType

if TYPE_CHECKING:
    from mcpwire.types._codec.base import JsonObject
    from mcpwire.types._codec.fields import Extra
    from mcpwire.types._codec.spec import Spec

__all__ = [
    "ClientCapabilities",
    "ClientTaskRequests",
    "ClientTasksCapability",
    "ElicitationCapability",
    "PromptsCapability",
    "ResourcesCapability",
    "RootsCapability",
    "SamplingCapability",
    "ServerCapabilities",
    "ServerTaskRequests",
    "ServerTasksCapability",
    "ToolsCapability",
]


@attrs.define(repr=False, eq=False)
class RootsCapability(WireType):
    """The client can list its roots."""

    list_changed: Annotated[bool | None, Spec(until="2025-11-25")] = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class SamplingCapability(WireType):
    """The client can let its model answer."""

    context: Annotated[JsonObject | None, Spec("2025-11-25")] = None
    tools: Annotated[JsonObject | None, Spec("2025-11-25")] = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class ElicitationCapability(WireType):
    """The client can ask its user; neither mode named means forms only."""

    form: Annotated[JsonObject | None, Spec("2025-11-25")] = None
    url: Annotated[JsonObject | None, Spec("2025-11-25")] = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class ClientTaskRequests(WireType):
    """The requests that a client can run as tasks (2025-11-25 only)."""

    elicitation: JsonObject | None = None
    sampling: JsonObject | None = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class ClientTasksCapability(WireType):
    """The client can run requests as tasks (2025-11-25 only)."""

    list: JsonObject | None = None
    cancel: JsonObject | None = None
    requests: ClientTaskRequests | None = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class ClientCapabilities(WireType):
    """What a client can do; what is absent it cannot."""

    roots: RootsCapability | None = None
    sampling: SamplingCapability | None = None
    elicitation: Annotated[ElicitationCapability | None, Spec("2025-06-18")] = None
    tasks: Annotated[
        ClientTasksCapability | None, Spec("2025-11-25", until="2025-11-25")
    ] = None
    experimental: dict[str, JsonObject] | None = None
    extensions: Annotated[dict[str, JsonObject] | None, Spec("2026-07-28")] = None
    """The settings of each extension that is switched on, by its identifier."""

    extra: Extra = None


@attrs.define(repr=False, eq=False)
class ToolsCapability(WireType):
    """The server has tools."""

    list_changed: bool | None = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class ResourcesCapability(WireType):
    """The server has resources."""

    subscribe: bool | None = None
    list_changed: bool | None = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class PromptsCapability(WireType):
    """The server has prompts."""

    list_changed: bool | None = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class ServerTaskRequests(WireType):
    """The requests that a server can run as tasks (2025-11-25 only)."""

    tools: JsonObject | None = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class ServerTasksCapability(WireType):
    """The server can run requests as tasks (2025-11-25 only)."""

    list: JsonObject | None = None
    cancel: JsonObject | None = None
    requests: ServerTaskRequests | None = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class ServerCapabilities(WireType):
    """What a server can do; what is absent it cannot."""

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
    """The settings of each extension that is offered, by its identifier."""

    extra: Extra = None

"""How two sides get to know each other: `initialize` and `server/discover`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import attrs

from mcpwire.types._codec.base import WireType
from mcpwire.types.capabilities import ClientCapabilities, ServerCapabilities

if TYPE_CHECKING:
    from mcpwire.types._codec.fields import (
        CacheScope,
        Extra,
        Meta,
        Raw,
        ResultType,
        Title,
        TtlMs,
    )
    from mcpwire.types._codec.spec import Spec
    from mcpwire.types.content import Icon

__all__ = [
    "DiscoverResult",
    "Implementation",
    "InitializeRequestParams",
    "InitializeResult",
]


@attrs.define(repr=False, eq=False)
class Implementation(WireType):
    """The name and version of a program; for display, never for decisions."""

    name: str
    version: str
    title: Title = None
    description: Annotated[str | None, Spec("2025-11-25")] = None
    website_url: Annotated[str | None, Spec("2025-11-25")] = None
    icons: Annotated[list[Icon] | None, Spec("2025-11-25")] = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class InitializeRequestParams(WireType):
    """What a client says about itself when it opens a session (until 2025-11-25)."""

    protocol_version: str
    client_info: Implementation
    capabilities: Annotated[ClientCapabilities, Spec(required=True)] = attrs.field(
        factory=ClientCapabilities
    )
    meta: Meta = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class InitializeResult(WireType):
    """What a server says about itself when a session is opened (until 2025-11-25)."""

    protocol_version: str
    capabilities: Annotated[ServerCapabilities, Spec(required=True)] = attrs.field(
        factory=ServerCapabilities
    )
    server_info: Annotated[Implementation | None, Spec(required=True)] = None
    instructions: str | None = None
    meta: Meta = None
    extra: Extra = None
    raw: Raw = attrs.field(default=None, eq=False)


@attrs.define(repr=False, eq=False)
class DiscoverResult(WireType):
    """What a server says about itself (2026-07-28); its name is in `meta`."""

    supported_versions: list[str]
    capabilities: Annotated[ServerCapabilities, Spec(required=True)] = attrs.field(
        factory=ServerCapabilities
    )
    instructions: str | None = None
    ttl_ms: TtlMs = None
    cache_scope: CacheScope = None
    result_type: ResultType = "complete"
    meta: Meta = None
    extra: Extra = None
    raw: Raw = attrs.field(default=None, eq=False)

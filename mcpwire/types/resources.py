"""Resources: what a server lets clients read, and what reading gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import attrs

from mcpwire.types._base import WireType

if TYPE_CHECKING:
    from mcpwire.types._base import (
        CacheScope,
        Extra,
        Meta,
        MetaOfTypes,
        Raw,
        RequestMeta,
        ResultType,
        Spec,
        Title,
        TtlMs,
    )
    from mcpwire.types.content import Annotations, Icon, ResourceContents
    from mcpwire.types.input import InputResponses

__all__ = [
    "ListResourceTemplatesResult",
    "ListResourcesResult",
    "ReadResourceRequestParams",
    "ReadResourceResult",
    "Resource",
    "ResourceTemplate",
    "ResourceUpdatedNotificationParams",
    "SubscribeRequestParams",
    "UnsubscribeRequestParams",
]

_Bytes: TypeAlias = bytes  # the property below is called `bytes`


@attrs.define(repr=False, eq=False)
class Resource(WireType):
    """A resource that a server names."""

    uri: str
    name: str
    title: Title = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    """In bytes, before any encoding."""

    annotations: Annotations | None = None
    icons: Annotated[list[Icon] | None, Spec("2025-11-25")] = None
    meta: MetaOfTypes = None
    extra: Extra = None

    @property
    def display_name(self) -> str:
        """The name to show to people."""
        return self.title or self.name


@attrs.define(repr=False, eq=False)
class ResourceTemplate(WireType):
    """A family of resources, by the pattern of their URIs (RFC 6570)."""

    uri_template: str
    name: str
    title: Title = None
    description: str | None = None
    mime_type: str | None = None
    """What all resources of the family are, where they are the same."""

    annotations: Annotations | None = None
    icons: Annotated[list[Icon] | None, Spec("2025-11-25")] = None
    meta: MetaOfTypes = None
    extra: Extra = None

    @property
    def display_name(self) -> str:
        """The name to show to people."""
        return self.title or self.name


@attrs.define(repr=False, eq=False)
class ListResourcesResult(WireType):
    """One page of a server's resources."""

    resources: list[Resource]
    next_cursor: str | None = None
    """Where the next page starts; any string, even an empty one, means there is one."""

    ttl_ms: TtlMs = None
    cache_scope: CacheScope = None
    result_type: ResultType = "complete"
    meta: Meta = None
    extra: Extra = None
    raw: Raw = attrs.field(default=None, eq=False)


@attrs.define(repr=False, eq=False)
class ListResourceTemplatesResult(WireType):
    """One page of a server's resource templates."""

    resource_templates: list[ResourceTemplate]
    next_cursor: str | None = None
    """Where the next page starts; any string, even an empty one, means there is one."""

    ttl_ms: TtlMs = None
    cache_scope: CacheScope = None
    result_type: ResultType = "complete"
    meta: Meta = None
    extra: Extra = None
    raw: Raw = attrs.field(default=None, eq=False)


@attrs.define(repr=False, eq=False)
class ReadResourceRequestParams(WireType):
    """What a client sends to read a resource."""

    uri: str
    input_responses: Annotated[InputResponses | None, Spec("2026-07-28")] = None
    request_state: Annotated[str | None, Spec("2026-07-28")] = None
    meta: RequestMeta = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class ReadResourceResult(WireType):
    """What reading a resource gave; a resource may consist of several parts."""

    contents: list[ResourceContents]
    ttl_ms: TtlMs = None
    cache_scope: CacheScope = None
    result_type: ResultType = "complete"
    meta: Meta = None
    extra: Extra = None
    raw: Raw = attrs.field(default=None, eq=False)

    @property
    def text(self) -> str:
        """All parts that are text, joined by newlines."""
        from mcpwire.types.content import TextResourceContents

        return "\n".join(
            part.text for part in self.contents if type(part) is TextResourceContents
        )

    @property
    def bytes(self) -> _Bytes:
        """All parts one after the other; text is encoded as UTF-8.

        Raises:
            InvalidMessage: A binary part is not Base64.
        """
        from mcpwire.types.content import TextResourceContents

        return b"".join(
            part.text.encode() if isinstance(part, TextResourceContents) else part.bytes
            for part in self.contents
        )


@attrs.define(repr=False, eq=False)
class SubscribeRequestParams(WireType):
    """What a client sends to hear of a resource's changes (until 2025-11-25)."""

    uri: str
    meta: Meta = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class UnsubscribeRequestParams(WireType):
    """What a client sends to hear no more of a resource (until 2025-11-25)."""

    uri: str
    meta: Meta = None
    extra: Extra = None


@attrs.define(repr=False, eq=False)
class ResourceUpdatedNotificationParams(WireType):
    """What a server sends when a resource has changed, or a part of it."""

    uri: str
    """The resource, which may lie below the one that was subscribed to."""

    meta: Meta = None
    extra: Extra = None

"""Resources: lists, contents and subscriptions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, TypeAlias

import attrs

from mcpwire.types._base import (
    SHARED,
    AnnotatedType,
    CacheableResult,
    ListResult,
    PlainParams,
    RequestParams,
    ResourceFields,
)

if TYPE_CHECKING:
    from mcpwire.types._base import Spec, Title
    from mcpwire.types.client_features import InputResponses
    from mcpwire.types.content import Icon, ResourceContents

_Bytes: TypeAlias = bytes  # the property below is called `bytes`


class Resource(ResourceFields):
    """A resource of a server."""


class ResourceTemplate(AnnotatedType):
    """A URI template (RFC 6570) for a set of resources."""

    uri_template: str
    name: str
    title: Title = None
    description: str | None = None
    mime_type: str | None = None
    """The MIME type of the resources, if all have the same."""

    icons: Annotated[list[Icon] | None, Spec("2025-11-25")] = attrs.field(
        default=None, kw_only=True, metadata=SHARED
    )

    @property
    def display_name(self) -> str:
        """The name for display."""
        return self.title or self.name


class ListResourcesResult(ListResult):
    """One page of a server's resources."""

    resources: list[Resource]


class ListResourceTemplatesResult(ListResult):
    """One page of a server's resource templates."""

    resource_templates: list[ResourceTemplate]


class ReadResourceRequestParams(RequestParams):
    """Parameters of `resources/read`."""

    uri: str
    input_responses: Annotated[InputResponses | None, Spec("2026-07-28")] = None
    request_state: Annotated[str | None, Spec("2026-07-28")] = None


class ReadResourceResult(CacheableResult):
    """The result of `resources/read`; a resource may have several parts."""

    contents: list[ResourceContents]

    @property
    def text(self) -> str:
        """All text parts, joined by newlines."""
        from mcpwire.types.content import TextResourceContents

        return "\n".join(
            part.text for part in self.contents if type(part) is TextResourceContents
        )

    @property
    def bytes(self) -> _Bytes:
        """The concatenated bytes of all parts, with text encoded as UTF-8.

        Raises:
            InvalidMessage: A binary part is not Base64.
        """
        from mcpwire.types.content import TextResourceContents

        return b"".join(
            part.text.encode() if isinstance(part, TextResourceContents) else part.bytes
            for part in self.contents
        )


class SubscribeRequestParams(PlainParams):
    """Parameters of `resources/subscribe` (until 2025-11-25)."""

    uri: str


class UnsubscribeRequestParams(PlainParams):
    """Parameters of `resources/unsubscribe` (until 2025-11-25)."""

    uri: str


class ResourceUpdatedNotificationParams(PlainParams):
    """Parameters of `notifications/resources/updated`."""

    uri: str
    """The changed resource; possibly a sub-resource of the subscribed one."""

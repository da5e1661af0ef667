"""Content blocks and resource contents of results and messages."""

from __future__ import annotations

import binascii
from typing import TYPE_CHECKING, Annotated, ClassVar, Final, Literal, TypeAlias

from mcpwire.types._base import (
    AnnotatedType,
    ResourceFields,
    Selector,
    WireObject,
    WireType,
    WithMeta,
)

if TYPE_CHECKING:
    from mcpwire.types._base import JsonObject, Spec

Role: TypeAlias = Literal["user", "assistant"]
"""The sender of a message."""

Theme: TypeAlias = Literal["light", "dark"]
"""The background for which an icon is designed."""

_SCHEME_MARKS: Final = str.maketrans("", "", "+-.")
"""Translation table that removes the punctuation of a URI scheme."""

_Bytes: TypeAlias = bytes  # the properties below are called `bytes`


def _from_base64(text: str, path: str) -> bytes:
    try:
        return binascii.a2b_base64(text, strict_mode=True)
    except ValueError as error:
        from mcpwire.errors import InvalidMessage

        raise InvalidMessage(path, expected="Base64", got=str(error)) from error


class Annotations(WireObject):
    """Hints on the use or display of an object."""

    audience: list[Role | str] | None = None
    """The intended readers; unknown names are kept."""

    priority: float | None = None
    """From 0 (optional) to 1 (required)."""

    last_modified: Annotated[str | None, Spec("2025-06-18")] = None
    """The time of the last change in ISO 8601."""


class Icon(WireObject):
    """An image for user interfaces; untrusted, like every URI from a peer."""

    src: str
    """An `https:` or `data:` URI."""

    mime_type: str | None = None
    sizes: list[str] | None = None
    """Sizes such as ``48x48``, or ``any`` for a scalable image."""

    theme: Theme | str | None = None
    """The background for which the icon is designed."""


class TextContent(AnnotatedType):
    """A block of text."""

    type: ClassVar[Literal["text"]] = "text"
    text: str


class _Base64Content(AnnotatedType):
    """Binary content."""

    data: str
    """The bytes in Base64."""

    mime_type: str

    @property
    def bytes(self) -> _Bytes:
        """The decoded bytes.

        Raises:
            InvalidMessage: `data` is not Base64.
        """
        return _from_base64(self.data, f"{type(self).__name__}.data")


class ImageContent(_Base64Content):
    """An image."""

    type: ClassVar[Literal["image"]] = "image"


class AudioContent(_Base64Content):
    """An audio recording."""

    type: ClassVar[Literal["audio"]] = "audio"


class ResourceLink(ResourceFields):
    """A link to a resource; `resources/list` need not contain it.

    Raises:
        LocalProtocolError: `uri` has no scheme; maybe `uri` and `name` are swapped.
    """

    type: ClassVar[Literal["resource_link"]] = "resource_link"

    def __attrs_post_init__(self) -> None:
        # RFC 3986, 3.1. The decoder does not call this for links from a peer.
        scheme, colon, _ = str(self.uri).partition(":")
        plain = scheme.translate(_SCHEME_MARKS)
        if not (colon and scheme[:1].isalpha() and plain.isascii() and plain.isalnum()):
            from mcpwire.errors import LocalProtocolError

            raise LocalProtocolError(
                f"ResourceLink.uri must be a URI with a scheme (RFC 3986), such as "
                f"'file:///a.txt', got {self.uri!r}"
            )


class TextResourceContents(WithMeta):
    """The text of a resource or of one of its parts."""

    uri: str
    text: str
    mime_type: str | None = None


class BlobResourceContents(WithMeta):
    """The binary data of a resource or of one of its parts."""

    uri: str
    blob: str
    """The bytes in Base64."""

    mime_type: str | None = None

    @property
    def bytes(self) -> _Bytes:
        """The decoded bytes.

        Raises:
            InvalidMessage: `blob` is not Base64.
        """
        return _from_base64(self.blob, "BlobResourceContents.blob")


def _select_contents(
    members: JsonObject,
) -> type[TextResourceContents | BlobResourceContents] | None:
    """Choose the class by the member that is present: `text` or `blob`."""
    if members.get("text") is not None:
        return TextResourceContents
    if members.get("blob") is not None:
        return BlobResourceContents
    return None


ResourceContents: TypeAlias = Annotated[
    TextResourceContents | BlobResourceContents,
    Selector(_select_contents, "text or blob"),
]
"""The contents of a resource or of one of its parts."""


class EmbeddedResource(AnnotatedType):
    """The contents of a resource in a result or message."""

    type: ClassVar[Literal["resource"]] = "resource"
    resource: ResourceContents


class UnknownContent(WireType):
    """A content block of an unknown type; `raw` is the unchanged object."""

    type: str
    raw: JsonObject


ContentBlock: TypeAlias = (
    TextContent
    | ImageContent
    | AudioContent
    | ResourceLink
    | EmbeddedResource
    | UnknownContent
)
"""One part of a tool's result or of a message."""

"""What a server offers besides tools: resources, prompts and skills.

Prompts are message templates that a server offers to users. Skills are folders of
instructions and files (SEP-2640).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

import attrs

from mcpwire.types._base import (
    SHARED,
    AnnotatedType,
    CacheableResult,
    ListResult,
    PlainParams,
    RequestParams,
    ResourceFields,
    Result,
    WireObject,
    WithMeta,
)

if TYPE_CHECKING:
    from mcpwire.types._base import JsonObject, Spec, Title
    from mcpwire.types.client_features import InputResponses
    from mcpwire.types.content import ContentBlock, Icon, ResourceContents, Role

_Bytes: TypeAlias = bytes  # the property below is called `bytes`

# --- resources


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


# --- prompts


class PromptArgument(WireObject):
    """An argument of a prompt; its value is text."""

    name: str
    title: Title = None
    description: str | None = None
    required: bool | None = None
    """Whether the argument is required; absent means false."""


class Prompt(WithMeta):
    """A prompt of a server."""

    name: str
    title: Title = None
    description: str | None = None
    arguments: list[PromptArgument] | None = None
    icons: Annotated[list[Icon] | None, Spec("2025-11-25")] = None

    @property
    def display_name(self) -> str:
        """The name for display."""
        return self.title or self.name


class PromptMessage(WireObject):
    """One message of a prompt."""

    role: Role
    content: ContentBlock

    @property
    def text(self) -> str:
        """The text of the message; empty if its content is not text."""
        from mcpwire.types.content import TextContent

        return self.content.text if isinstance(self.content, TextContent) else ""


class ListPromptsResult(ListResult):
    """One page of a server's prompts."""

    prompts: list[Prompt]


class GetPromptRequestParams(RequestParams):
    """Parameters of `prompts/get`."""

    name: str
    arguments: dict[str, str] | None = None
    input_responses: Annotated[InputResponses | None, Spec("2026-07-28")] = None
    request_state: Annotated[str | None, Spec("2026-07-28")] = None


class GetPromptResult(Result):
    """The result of `prompts/get`: the messages of a prompt."""

    messages: list[PromptMessage]
    description: str | None = None


# --- skills


class SkillResource(WithMeta):
    """One file of a skill, with its size and digest."""

    uri: str
    digest: str
    """``sha256:`` and 64 lower-case hexadecimal digits."""

    size: int
    """The size in bytes, before any encoding."""


class Skill(WithMeta):
    """A server's description of a skill; it is verified when the skill is loaded."""

    uri: str
    """The URI of `SKILL.md`; the other files are in the same folder or below it."""

    frontmatter: JsonObject
    """The YAML front matter of `SKILL.md` as JSON."""

    resources: Literal["dynamic"] | list[SkillResource]
    """All files of the skill, or ``dynamic`` if they are not known in advance."""

    @property
    def name(self) -> str:
        """The name of the skill; empty if the server gave none."""
        return self._text("name")

    @property
    def description(self) -> str:
        """The purpose of the skill; empty if the server gave none."""
        return self._text("description")

    @property
    def is_dynamic(self) -> bool:
        """Whether the files are not known in advance and cannot be verified."""
        return self.resources == "dynamic"

    def _text(self, key: str) -> str:
        value = self.frontmatter.get(key)
        return value if isinstance(value, str) else ""


class ListSkillsResult(ListResult):
    """One page of a server's skills."""

    skills: list[Skill]


class GetSkillRequestParams(RequestParams):
    """Parameters of `skills/get`."""

    uri: str


class GetSkillResult(CacheableResult):
    """The result of `skills/get`."""

    skill: Skill


class ReadResourceDirectoryRequestParams(RequestParams):
    """Parameters of `resources/directory/read`."""

    uri: str
    cursor: str | None = None


class ReadResourceDirectoryResult(Result):
    """One page of the entries of a directory, without those of subdirectories."""

    resources: list[Resource]
    """The entries; directories have the MIME type ``inode/directory``."""

    next_cursor: str | None = None
    """The cursor of the next page; any string, even an empty one, means more pages."""

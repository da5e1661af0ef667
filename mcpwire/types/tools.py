"""Tools: descriptions, calls and results."""

from __future__ import annotations

from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Self,
    TypeAlias,
    TypeVar,
    overload,
)

import attrs

from mcpwire.types._base import (
    UNSET,
    ListResult,
    RequestParams,
    Result,
    WireObject,
    WithMeta,
)

if TYPE_CHECKING:
    from mcpwire.types._base import Json, JsonObject, Spec, Title
    from mcpwire.types.client_features import InputResponses
    from mcpwire.types.content import ContentBlock, Icon
    from mcpwire.types.tasks import TaskMetadata

T = TypeVar("T")

TaskSupport: TypeAlias = Literal["forbidden", "optional", "required"]
"""Whether calls of a tool may run as tasks."""


class ToolAnnotations(WireObject):
    """Hints on the effects of a tool; only as trustworthy as the server."""

    title: str | None = None
    read_only_hint: bool | None = None
    """Whether the tool changes nothing; absent means false."""

    destructive_hint: bool | None = None
    """Whether a change may destroy data; absent means true."""

    idempotent_hint: bool | None = None
    """Whether a repeated call has no further effect; absent means false."""

    open_world_hint: bool | None = None
    """Whether the tool interacts with external entities; absent means true."""


class ToolExecution(WireObject):
    """The supported ways to run a tool (2025-11-25 only)."""

    task_support: TaskSupport | str | None = None
    """Whether calls may, must or must not run as tasks; absent means must not."""


class Tool(WithMeta):
    """A tool of a server."""

    name: str
    input_schema: Annotated[JsonObject, Spec(required=True)] = attrs.field(
        factory=lambda: {"type": "object"}
    )
    """The JSON Schema of the arguments, with all received keywords."""

    title: Title = None
    description: str | None = None
    annotations: Annotated[ToolAnnotations | None, Spec("2025-03-26")] = None
    output_schema: Annotated[JsonObject | None, Spec("2025-06-18")] = None
    """The JSON Schema of `CallToolResult.structured_content`."""

    icons: Annotated[list[Icon] | None, Spec("2025-11-25")] = None
    execution: Annotated[
        ToolExecution | None, Spec("2025-11-25", until="2025-11-25")
    ] = None

    @property
    def display_name(self) -> str:
        """The name for display."""
        # 2026-07-28 schema, Tool: title, then annotations.title, then name.
        hint = self.annotations.title if self.annotations else None
        return self.title or hint or self.name


class ListToolsResult(ListResult):
    """One page of a server's tools."""

    tools: list[Tool]


class CallToolRequestParams(RequestParams):
    """Parameters of `tools/call`."""

    name: str
    arguments: JsonObject | None = None
    input_responses: Annotated[InputResponses | None, Spec("2026-07-28")] = None
    request_state: Annotated[str | None, Spec("2026-07-28")] = None
    task: Annotated[TaskMetadata | None, Spec("2025-11-25", until="2025-11-25")] = None


class CallToolResult(Result):
    """The result of `tools/call`."""

    content: Annotated[list[ContentBlock], Spec(required=True)] = attrs.field(
        factory=list
    )
    structured_content: Annotated[Json, Spec("2025-06-18")] = UNSET
    """The result as any JSON value, ``None`` included; `UNSET` if absent."""

    is_error: bool = False

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        from mcpwire.types.content import TextContent

        return "\n".join(
            block.text for block in self.content if type(block) is TextContent
        )

    @overload
    def as_(self, kind: type[T]) -> T: ...

    @overload
    def as_(self, kind: Any) -> Any: ...

    def as_(self, kind: Any) -> Any:
        """Convert the structured content to a type of the caller.

        The type may be a dataclass, an attrs class, a TypedDict, a pydantic model, a
        msgspec struct, or a type that their fields may have, such as `list[int]`.

        Raises:
            ToolError: The tool reported failure.
            InvalidMessage: There is no structured content, or it does not match.
            TypeError: The type cannot be constructed from JSON.
        """
        from mcpwire.types._convert import convert_result

        return convert_result(self.raise_for_error(), kind)

    def raise_for_error(self) -> Self:
        """Return the result itself.

        Raises:
            ToolError: The tool reported failure; the error has the result, and its
                ``str`` is the first 2,000 characters of the text.
        """
        if self.is_error:
            from mcpwire.errors import MAX_MESSAGE_SHOWN, ToolError, shorten

            message = shorten(self.text, MAX_MESSAGE_SHOWN) or "the tool gave no reason"
            raise ToolError(message, result=self)
        return self

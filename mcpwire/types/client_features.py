"""Requests of a server to a client: sampling, elicitation, roots, input requests.

Sampling requests messages of the client's model. Elicitation requests input from the
client's user, by a form or at a URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

import attrs

from mcpwire.types._base import (
    SHARED,
    UNSET,
    BareResult,
    PlainParams,
    Selector,
    WireObject,
    WireType,
    WithMeta,
)
from mcpwire.types.content import (
    AudioContent,
    ImageContent,
    TextContent,
    UnknownContent,
)

if TYPE_CHECKING:
    from mcpwire.types._base import Json, JsonObject, Meta, ResultType, Spec
    from mcpwire.types.content import ContentBlock, Role
    from mcpwire.types.tasks import TaskMetadata
    from mcpwire.types.tools import Tool

# --- sampling


IncludeContext: TypeAlias = Literal["none", "thisServer", "allServers"]
"""The MCP servers from which the client should add context."""

ToolChoiceMode: TypeAlias = Literal["auto", "required", "none"]
"""Whether the model may, must or must not use tools."""


class ToolUseContent(PlainParams):
    """A model's request to call a tool (since 2025-11-25)."""

    type: ClassVar[Literal["tool_use"]] = "tool_use"
    id: str
    """The id of the call, for the `tool_use_id` of its result."""

    name: str
    input: JsonObject


class ToolResultContent(PlainParams):
    """The result of a model's tool call (since 2025-11-25)."""

    type: ClassVar[Literal["tool_result"]] = "tool_result"
    tool_use_id: str
    content: Annotated[list[ContentBlock], Spec(required=True)] = attrs.field(
        factory=list
    )
    structured_content: Json = UNSET
    """The result as any JSON value, ``None`` included; `UNSET` if absent."""

    is_error: bool | None = None


SamplingContent: TypeAlias = (
    TextContent
    | ImageContent
    | AudioContent
    | ToolUseContent
    | ToolResultContent
    | UnknownContent
)
"""One part of a sampling message."""


class SamplingMessage(WireObject):
    """One message to or from a model."""

    role: Role
    content: SamplingContent | list[SamplingContent]
    """One block, or since 2025-11-25 several."""

    meta: Annotated[Meta, Spec("2025-11-25")] = None

    @property
    def blocks(self) -> list[SamplingContent]:
        """The content as a list, also if it is a single block."""
        return self.content if isinstance(self.content, list) else [self.content]


class ModelHint(WireObject):
    """A preferred model: part of the name of the model or its family."""

    name: str | None = None


class ModelPreferences(WireObject):
    """A server's preferences for the model; priorities range from 0 to 1."""

    hints: list[ModelHint] | None = None
    """Hints in order of preference; the first match counts."""

    cost_priority: float | None = None
    speed_priority: float | None = None
    intelligence_priority: float | None = None


class ToolChoice(WireObject):
    """The use of tools that the server requests."""

    mode: ToolChoiceMode | str | None = None


class CreateMessageRequestParams(WireObject):
    """Parameters of `sampling/createMessage`."""

    messages: list[SamplingMessage]
    max_tokens: int
    system_prompt: str | None = None
    model_preferences: ModelPreferences | None = None
    include_context: IncludeContext | str | None = None
    temperature: float | None = None
    stop_sequences: list[str] | None = None
    metadata: JsonObject | None = None
    """Data for the provider of the model."""

    tools: Annotated[list[Tool] | None, Spec("2025-11-25")] = None
    tool_choice: Annotated[ToolChoice | None, Spec("2025-11-25")] = None
    task: Annotated[TaskMetadata | None, Spec("2025-11-25", until="2025-11-25")] = None
    meta: Annotated[Meta, Spec(until="2025-11-25")] = None


class CreateMessageResult(BareResult):
    """The result of `sampling/createMessage`: a message of the model."""

    role: Role
    content: SamplingContent | list[SamplingContent]
    """One block, or since 2025-11-25 several."""

    model: str
    stop_reason: str | None = None
    """Such as ``endTurn``, ``stopSequence``, ``maxTokens`` or ``toolUse``."""

    @property
    def blocks(self) -> list[SamplingContent]:
        """The content as a list, also if it is a single block."""
        return self.content if isinstance(self.content, list) else [self.content]

    @property
    def text(self) -> str:
        """All text blocks, joined by newlines."""
        return "\n".join(
            block.text for block in self.blocks if isinstance(block, TextContent)
        )


# --- elicitation


ElicitAction: TypeAlias = Literal["accept", "decline", "cancel"]
"""The decision of the user."""

StringFormat: TypeAlias = Literal["date", "date-time", "email", "uri"]
"""The format of a text field."""


# --- elicitation: the fields of a form


class StringSchema(WireObject):
    """A field for text."""

    type: ClassVar[Literal["string"]] = "string"
    title: str | None = None
    description: str | None = None
    min_length: int | None = None
    max_length: int | None = None
    format: StringFormat | str | None = None
    default: Annotated[str | None, Spec("2025-11-25")] = None


class NumberSchema(WireObject):
    """A field for a number."""

    type: Literal["number", "integer"]
    title: str | None = None
    description: str | None = None
    minimum: float | None = None
    maximum: float | None = None
    default: Annotated[float | None, Spec("2025-11-25")] = None


class BooleanSchema(WireObject):
    """A field for true or false."""

    type: ClassVar[Literal["boolean"]] = "boolean"
    title: str | None = None
    description: str | None = None
    default: bool | None = None


class EnumOption(WireObject):
    """An option with a title (since 2025-11-25)."""

    const: str
    title: str


class UntitledSingleSelectEnumSchema(WireObject):
    """A field for one of several values."""

    type: ClassVar[Literal["string"]] = "string"
    enum: list[str]
    title: str | None = None
    description: str | None = None
    default: Annotated[str | None, Spec("2025-11-25")] = None


class TitledSingleSelectEnumSchema(WireObject):
    """A field for one of several titled options (since 2025-11-25)."""

    type: ClassVar[Literal["string"]] = "string"
    one_of: list[EnumOption]
    title: str | None = None
    description: str | None = None
    default: str | None = None


class LegacyTitledEnumSchema(WireObject):
    """A field for one of several values, with their titles in a second list."""

    type: ClassVar[Literal["string"]] = "string"
    enum: list[str]
    enum_names: list[str] | None = None
    title: str | None = None
    description: str | None = None
    default: Annotated[str | None, Spec("2025-11-25")] = None


class EnumItems(WireObject):
    """The values of a multiple-choice field."""

    type: ClassVar[Literal["string"]] = "string"
    enum: list[str]


class TitledEnumItems(WireObject):
    """The titled options of a multiple-choice field."""

    any_of: list[EnumOption]


class UntitledMultiSelectEnumSchema(WireObject):
    """A field for any of several values (since 2025-11-25)."""

    type: ClassVar[Literal["array"]] = "array"
    items: EnumItems
    title: str | None = None
    description: str | None = None
    min_items: int | None = None
    max_items: int | None = None
    default: list[str] | None = None


class TitledMultiSelectEnumSchema(WireObject):
    """A field for any of several titled options (since 2025-11-25)."""

    type: ClassVar[Literal["array"]] = "array"
    items: TitledEnumItems
    title: str | None = None
    description: str | None = None
    min_items: int | None = None
    max_items: int | None = None
    default: list[str] | None = None


class UnknownSchema(WireType):
    """A field of an unknown kind; a client may decline such a form."""

    raw: JsonObject


def _select_schema(members: JsonObject) -> type[PrimitiveSchemaDefinition]:
    """Choose the class of a form field; several classes have the same `type`."""
    schema_class: type[PrimitiveSchemaDefinition] = UnknownSchema
    match members:
        case {"type": "string", "oneOf": _}:
            schema_class = TitledSingleSelectEnumSchema
        case {"type": "string", "enumNames": _}:
            schema_class = LegacyTitledEnumSchema
        case {"type": "string", "enum": _}:
            schema_class = UntitledSingleSelectEnumSchema
        case {"type": "string"}:
            schema_class = StringSchema
        case {"type": "number" | "integer"}:
            schema_class = NumberSchema
        case {"type": "boolean"}:
            schema_class = BooleanSchema
        case {"type": "array", "items": {"anyOf": _}}:
            schema_class = TitledMultiSelectEnumSchema
        case {"type": "array", "items": {"enum": _}}:
            schema_class = UntitledMultiSelectEnumSchema
    return schema_class


PrimitiveSchemaDefinition: TypeAlias = Annotated[
    StringSchema
    | NumberSchema
    | BooleanSchema
    | UntitledSingleSelectEnumSchema
    | TitledSingleSelectEnumSchema
    | UntitledMultiSelectEnumSchema
    | TitledMultiSelectEnumSchema
    | LegacyTitledEnumSchema
    | UnknownSchema,
    Selector(_select_schema, "a field of a form"),
]
"""One field of a form."""


class RequestedSchema(WireObject):
    """The schema of a form: a flat object of simple fields."""

    type: ClassVar[Literal["object"]] = "object"
    properties: dict[str, PrimitiveSchemaDefinition]
    required: list[str] | None = None
    dialect: Annotated[str | None, Spec("2025-11-25", wire="$schema")] = None


# --- elicitation: the request and its result


class ElicitRequestFormParams(WireObject):
    """Parameters of `elicitation/create` for a form."""

    message: str
    """The message to the user."""

    requested_schema: RequestedSchema
    mode: Annotated[Literal["form"] | None, Spec("2025-11-25")] = None
    task: Annotated[TaskMetadata | None, Spec("2025-11-25", until="2025-11-25")] = None
    meta: Annotated[Meta, Spec(until="2025-11-25")] = None


class ElicitRequestURLParams(WireObject):
    """Parameters of `elicitation/create` for a URL (since 2025-11-25)."""

    mode: ClassVar[Literal["url"]] = "url"
    message: str
    """The message to the user."""

    url: str
    elicitation_id: Annotated[
        str | None, Spec("2025-11-25", until="2025-11-25", required=("2025-11-25",))
    ] = None
    task: Annotated[TaskMetadata | None, Spec("2025-11-25", until="2025-11-25")] = None
    meta: Annotated[Meta, Spec(until="2025-11-25")] = None


def _select_mode(
    members: JsonObject,
) -> type[ElicitRequestFormParams | ElicitRequestURLParams] | None:
    """Choose the class of the parameters by their mode."""
    # 2025-11-25 client/elicitation, "Elicitation Requests": no mode means form.
    mode = members.get("mode")
    if mode is None or mode == "form":
        return ElicitRequestFormParams
    return ElicitRequestURLParams if mode == "url" else None


ElicitRequestParams: TypeAlias = Annotated[
    ElicitRequestFormParams | ElicitRequestURLParams,
    Selector(_select_mode, "mode 'form' or 'url'"),
]
"""Parameters of `elicitation/create`."""


class ElicitResult(BareResult):
    """The user's decision, and the values of the form."""

    action: ElicitAction
    content: dict[str, str | float | bool | list[str]] | None = None
    """The values of the form's fields; only if the user accepted."""

    meta: Annotated[Meta, Spec(until="2025-11-25")] = attrs.field(
        default=None, kw_only=True, metadata=SHARED
    )


class ElicitationCompleteNotificationParams(PlainParams):
    """Parameters of `notifications/elicitation/complete` (2025-11-25 only)."""

    elicitation_id: str


# --- roots


class Root(WithMeta):
    """A folder or file in which servers may work."""

    uri: str
    """A `file://` URI."""

    name: str | None = None


class ListRootsRequestParams(PlainParams):
    """Parameters of `roots/list`."""


class ListRootsResult(BareResult):
    """The client's roots."""

    roots: list[Root]
    meta: Annotated[Meta, Spec(until="2025-11-25")] = attrs.field(
        default=None, kw_only=True, metadata=SHARED
    )


# --- input requests
#
# Since 2026-07-28 a server sends no requests; it returns an `InputRequiredResult` with
# input requests, and the client repeats its request with the responses.


class CreateMessageRequest(WireObject):
    """A request for a message of the client's model."""

    method: ClassVar[Literal["sampling/createMessage"]] = "sampling/createMessage"
    params: CreateMessageRequestParams


class ListRootsRequest(WireObject):
    """A request for the client's roots."""

    method: ClassVar[Literal["roots/list"]] = "roots/list"
    params: ListRootsRequestParams | None = None


class ElicitRequest(WireObject):
    """A request for input from the client's user."""

    method: ClassVar[Literal["elicitation/create"]] = "elicitation/create"
    params: ElicitRequestParams


class UnknownInputRequest(WireType):
    """A request with an unknown method."""

    method: str
    raw: JsonObject


InputRequest: TypeAlias = (
    CreateMessageRequest | ListRootsRequest | ElicitRequest | UnknownInputRequest
)
"""A request to the client."""

InputRequests: TypeAlias = dict[str, InputRequest]
"""Requests to the client by their keys."""


class UnknownInputResponse(WireType):
    """A response of an unknown kind."""

    raw: JsonObject


def _select_response(members: JsonObject) -> type[InputResponse]:
    """Choose the class of a response by its members, as it contains no method."""
    match members:
        case {"action": _}:
            return ElicitResult
        case {"roots": _}:
            return ListRootsResult
        case {"model": _} | {"role": _}:
            return CreateMessageResult
    return UnknownInputResponse


InputResponse: TypeAlias = Annotated[
    CreateMessageResult | ListRootsResult | ElicitResult | UnknownInputResponse,
    Selector(_select_response, "a response to an input request"),
]
"""A response of the client."""

InputResponses: TypeAlias = dict[str, InputResponse]
"""Responses of the client by the keys of the requests."""


class InputRequiredResult(BareResult):
    """The result of a request that needs input from the client (2026-07-28)."""

    input_requests: InputRequests | None = None
    request_state: str | None = None
    """Opaque state that the client returns unchanged with the responses."""

    result_type: ResultType = "input_required"

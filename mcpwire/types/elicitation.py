"""What a server asks of a client: a form, a URL, its roots; and input requests.

Elicitation asks the client's user, in a form or at a URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

import attrs

from mcpwire.types._base import (
    SHARED,
    BareResult,
    Pick,
    PlainParams,
    WireObject,
    WireType,
    WithMeta,
)
from mcpwire.types.sampling import CreateMessageResult

if TYPE_CHECKING:
    from mcpwire.types._base import JsonObject, Meta, ResultType, Spec
    from mcpwire.types.sampling import CreateMessageRequestParams
    from mcpwire.types.tasks import TaskMetadata

ElicitAction: TypeAlias = Literal["accept", "decline", "cancel"]
"""The decision of the user."""

StringFormat: TypeAlias = Literal["date", "date-time", "email", "uri"]
"""The format of a text."""


# --- the fields of a form


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
    """A field for yes or no."""

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
    """A field for one of several values; their titles stand in a second list."""

    type: ClassVar[Literal["string"]] = "string"
    enum: list[str]
    enum_names: list[str] | None = None
    title: str | None = None
    description: str | None = None
    default: Annotated[str | None, Spec("2025-11-25")] = None


class EnumItems(WireObject):
    """The values of a multiple choice."""

    type: ClassVar[Literal["string"]] = "string"
    enum: list[str]


class TitledEnumItems(WireObject):
    """The titled options of a multiple choice."""

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
    """A field of a kind that no revision knows; a client may decline to show it."""

    raw: JsonObject


def _pick_schema(members: JsonObject) -> type[PrimitiveSchemaDefinition]:
    """Choose the class of a form's field; several share their `type`."""
    found: type[PrimitiveSchemaDefinition] = UnknownSchema
    match members:
        case {"type": "string", "oneOf": _}:
            found = TitledSingleSelectEnumSchema
        case {"type": "string", "enumNames": _}:
            found = LegacyTitledEnumSchema
        case {"type": "string", "enum": _}:
            found = UntitledSingleSelectEnumSchema
        case {"type": "string"}:
            found = StringSchema
        case {"type": "number" | "integer"}:
            found = NumberSchema
        case {"type": "boolean"}:
            found = BooleanSchema
        case {"type": "array", "items": {"anyOf": _}}:
            found = TitledMultiSelectEnumSchema
        case {"type": "array", "items": {"enum": _}}:
            found = UntitledMultiSelectEnumSchema
    return found


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
    Pick(_pick_schema, "a field of a form"),
]
"""One field of a form."""


class RequestedSchema(WireObject):
    """The form: a flat object of simple fields."""

    type: ClassVar[Literal["object"]] = "object"
    properties: dict[str, PrimitiveSchemaDefinition]
    required: list[str] | None = None
    dialect: Annotated[str | None, Spec("2025-11-25", wire="$schema")] = None


# --- the request and its answer


class ElicitRequestFormParams(WireObject):
    """Parameters of `elicitation/create` for a form."""

    message: str
    """What the user is told."""

    requested_schema: RequestedSchema
    mode: Annotated[Literal["form"] | None, Spec("2025-11-25")] = None
    task: Annotated[TaskMetadata | None, Spec("2025-11-25", until="2025-11-25")] = None
    meta: Annotated[Meta, Spec(until="2025-11-25")] = None


class ElicitRequestURLParams(WireObject):
    """Parameters of `elicitation/create` for a URL (since 2025-11-25)."""

    mode: ClassVar[Literal["url"]] = "url"
    message: str
    """What the user is told."""

    url: str
    elicitation_id: Annotated[
        str | None,
        Spec("2025-11-25", until="2025-11-25", required=("2025-11-25",)),
    ] = None
    task: Annotated[TaskMetadata | None, Spec("2025-11-25", until="2025-11-25")] = None
    meta: Annotated[Meta, Spec(until="2025-11-25")] = None


def _pick_mode(
    members: JsonObject,
) -> type[ElicitRequestFormParams | ElicitRequestURLParams] | None:
    """Choose the class of the parameters; without a mode it is a form."""
    # 2025-11-25 client/elicitation, "Elicitation Requests": no mode means form.
    mode = members.get("mode")
    if mode is None or mode == "form":
        return ElicitRequestFormParams
    return ElicitRequestURLParams if mode == "url" else None


ElicitRequestParams: TypeAlias = Annotated[
    ElicitRequestFormParams | ElicitRequestURLParams,
    Pick(_pick_mode, "mode 'form' or 'url'"),
]
"""Parameters of `elicitation/create`."""


class ElicitResult(BareResult):
    """The user's decision, and the values of the form."""

    action: ElicitAction
    content: dict[str, str | float | bool | list[str]] | None = None
    """The fields of the form; only when it was accepted."""

    meta: Annotated[Meta, Spec(until="2025-11-25")] = attrs.field(
        default=None, kw_only=True, metadata=SHARED
    )


class ElicitationCompleteNotificationParams(PlainParams):
    """Parameters of `notifications/elicitation/complete` (2025-11-25 only)."""

    elicitation_id: str


# --- roots


class Root(WithMeta):
    """A folder or file that servers may work in."""

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
# Since 2026-07-28 a server sends no requests; it answers with an `InputRequiredResult`
# that holds them, and the client asks again with the responses.


class CreateMessageRequest(WireObject):
    """A request for an answer of the client's model."""

    method: ClassVar[Literal["sampling/createMessage"]] = "sampling/createMessage"
    params: CreateMessageRequestParams


class ListRootsRequest(WireObject):
    """A request for the client's roots."""

    method: ClassVar[Literal["roots/list"]] = "roots/list"
    params: ListRootsRequestParams | None = None


class ElicitRequest(WireObject):
    """A question to the client's user."""

    method: ClassVar[Literal["elicitation/create"]] = "elicitation/create"
    params: ElicitRequestParams


class UnknownInputRequest(WireType):
    """A request with a method that this version does not know."""

    method: str
    raw: JsonObject


InputRequest: TypeAlias = (
    CreateMessageRequest | ListRootsRequest | ElicitRequest | UnknownInputRequest
)
"""A request to the client."""

InputRequests: TypeAlias = dict[str, InputRequest]
"""Requests to the client, each under a key of its own."""


class UnknownInputResponse(WireType):
    """A response of a kind that this version does not know."""

    raw: JsonObject


def _pick_response(members: JsonObject) -> type[InputResponse]:
    """Choose the class of a response by its members; it names no method."""
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
    Pick(_pick_response, "a response to an input request"),
]
"""A response of the client."""

InputResponses: TypeAlias = dict[str, InputResponse]
"""Responses of the client, under the keys of the requests."""


class InputRequiredResult(BareResult):
    """The result of a request that needs input from the client (2026-07-28)."""

    input_requests: InputRequests | None = None
    request_state: str | None = None
    """Handed back as it came; its meaning is the server's."""

    result_type: ResultType = "input_required"

"""Requests of a server to a client: elicitation, roots, and input requests.

Elicitation requests input from the client's user, by a form or at a URL.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

import attrs

from mcpwire.types._base import (
    SHARED,
    BareResult,
    PlainParams,
    Selector,
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
"""The format of a text field."""


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


# --- the request and its result


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

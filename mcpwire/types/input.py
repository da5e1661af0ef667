"""Input-required results: requests to the client, their responses, the client's roots.

Since 2026-07-28 a server does not send requests; it answers with an
`InputRequiredResult` that holds them, and the client asks again with the responses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, TypeAlias

import attrs

from mcpwire.types._base import (
    BareResult,
    Pick,
    PlainParams,
    WireObject,
    WireType,
    WithMeta,
    shared_last,
)
from mcpwire.types.elicitation import ElicitResult
from mcpwire.types.sampling import CreateMessageResult

if TYPE_CHECKING:
    from mcpwire.types._base import JsonObject, Meta, ResultType, Spec
    from mcpwire.types.elicitation import ElicitRequestParams
    from mcpwire.types.sampling import CreateMessageRequestParams

__all__ = [
    "CreateMessageRequest",
    "ElicitRequest",
    "InputRequest",
    "InputRequests",
    "InputRequiredResult",
    "InputResponse",
    "InputResponses",
    "ListRootsRequest",
    "ListRootsRequestParams",
    "ListRootsResult",
    "Root",
    "UnknownInputRequest",
    "UnknownInputResponse",
]


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class Root(WithMeta):
    """A folder or file that servers may work in."""

    uri: str
    """A `file://` URI."""

    name: str | None = None


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class ListRootsRequestParams(PlainParams):
    """Parameters of `roots/list`."""


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class ListRootsResult(BareResult):
    """The client's roots."""

    roots: list[Root]
    meta: Annotated[Meta, Spec(until="2025-11-25")] = None


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class CreateMessageRequest(WireObject):
    """A request for an answer of the client's model."""

    method: ClassVar[Literal["sampling/createMessage"]] = "sampling/createMessage"
    params: CreateMessageRequestParams


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class ListRootsRequest(WireObject):
    """A request for the client's roots."""

    method: ClassVar[Literal["roots/list"]] = "roots/list"
    params: ListRootsRequestParams | None = None


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class ElicitRequest(WireObject):
    """A question to the client's user."""

    method: ClassVar[Literal["elicitation/create"]] = "elicitation/create"
    params: ElicitRequestParams


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
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


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class UnknownInputResponse(WireType):
    """A response of a kind that this version does not know."""

    raw: JsonObject


def pick_response(members: JsonObject) -> type[InputResponse]:
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
    Pick(pick_response, "a response to an input request"),
]
"""A response of the client."""

InputResponses: TypeAlias = dict[str, InputResponse]
"""Responses of the client, under the keys of the requests."""


@attrs.define(repr=False, eq=False, field_transformer=shared_last)
class InputRequiredResult(BareResult):
    """The result of a request that needs input from the client (2026-07-28)."""

    input_requests: InputRequests | None = None
    request_state: str | None = None
    """Handed back as it came; its meaning is the server's."""

    result_type: ResultType = "input_required"

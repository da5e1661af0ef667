"""Input-required results: requests to the client, their responses, the client's roots.

Since 2026-07-28 a server does not send requests; it answers with an
`InputRequiredResult` that holds them, and the client asks again with the responses.
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
from mcpwire.types.elicitation import ElicitResult
from mcpwire.types.sampling import CreateMessageResult

if TYPE_CHECKING:
    from mcpwire.types._base import JsonObject, Meta, ResultType, Spec
    from mcpwire.types.elicitation import ElicitRequestParams
    from mcpwire.types.sampling import CreateMessageRequestParams


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

"""Server side of server requests: builds requests for forms, URLs, sampling and roots.

`client_features` is the client side. An `InputRequest` has the params for the revision,
the capability that the client must have declared, and the decoder of the result. In a
session it is sent as a request, since 2026-07-28 in an input-required result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.errors import InvalidMessage, InvalidParams, LocalProtocolError, excerpt
from mcpwire.protocol.methods import (
    ELICIT,
    ROOTS,
    SAMPLE,
    available_method,
    is_capability_declared,
)
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        ElicitResult,
        JsonObject,
        Root,
    )
    from mcpwire.versions import Revision

_NOV_2025: Final = REVISIONS[3]

METHODS: Final = {"elicitation": ELICIT, "sampling": SAMPLE, "roots": ROOTS}


@attrs.frozen
class InputRequest:
    """A request for input from the client, ready to be sent."""

    key_prefix: str
    """The prefix of its key, unless the author chose a key."""

    method: str

    capability: str
    """The path of the required capability."""

    params: dict[str, Any] = attrs.field(repr=False)

    decode: Callable[[dict[str, Any]], Any] = attrs.field(repr=False)
    """Decodes the result; raises `InvalidMessage` or `LocalProtocolError`."""


def is_supported(
    capability: str, revision: Revision, declared: Mapping[str, Any] | None
) -> bool:
    """Return whether client and revision support a capability."""
    feature, _, mode = capability.partition(".")
    method = METHODS.get(feature)
    if method is not None:
        if available_method(method, revision, "server") is None:
            return False
        # 2025-11-25 introduced modes; before, every elicitation was a form.
        if mode and revision < _NOV_2025:
            if capability != "elicitation.form":
                return False
            capability = feature
    return is_capability_declared(declared, capability)


def capability_object(capability: str) -> JsonObject:
    """Return the capabilities object that declares one capability."""
    declared: JsonObject = {}
    for name in reversed(capability.split(".")):
        declared = {name: declared}
    return declared


# --- the client's user


def elicit_form(message: str, schema: JsonObject) -> InputRequest:
    """Return a request to fill in a form with a schema of the revision."""
    # 2025-11-25 client/elicitation: no mode means form; earlier there are no modes.
    params = {"message": message, "requestedSchema": schema}
    return InputRequest(
        "elicit", ELICIT, "elicitation.form", params, _decode_elicitation
    )


def elicit_url(
    message: str, url: str, revision: Revision, *, elicitation_id: str
) -> InputRequest:
    """Return a request to visit a URL, or raise `LocalProtocolError`."""
    from mcpwire.protocol.elicitation import url_problem

    # 2025-11-25 client/elicitation, "URL Mode Elicitation Requests": a valid URL.
    problem = url_problem(url, plain_http=True)
    if problem is not None:
        raise LocalProtocolError(f"elicitation {problem}")
    params = {"mode": "url", "message": message, "url": url}
    if revision == _NOV_2025:
        params["elicitationId"] = elicitation_id
    return InputRequest(
        "elicit", ELICIT, "elicitation.url", params, _decode_elicitation
    )


def _decode_elicitation(answer: dict[str, Any]) -> ElicitResult:
    from mcpwire.types import ElicitResult, decode

    return decode(ElicitResult, answer)


# --- the client's roots


def list_roots() -> InputRequest:
    """Return a request for the folders and files in which the server may work."""
    return InputRequest("roots", ROOTS, "roots", {}, _decode_roots)


def _decode_roots(answer: dict[str, Any]) -> list[Root]:
    from mcpwire.types import ListRootsResult, decode

    roots = decode(ListRootsResult, answer).roots
    for index, root in enumerate(roots):
        # 2026-07-28 client/roots, "Root": MUST be a file:// URI.
        if not root.uri.startswith("file://"):
            raise InvalidMessage(
                f"ListRootsResult.roots[{index}].uri",
                expected="a file:// URI",
                got=excerpt(root.uri),
            )
    return roots


# --- the client's model


def create_message(
    request: CreateMessageRequestParams, revision: Revision, declared: Mapping[str, Any]
) -> InputRequest:
    """Return a request for a message of the model, or raise `LocalProtocolError`."""
    from mcpwire.protocol.client_features import (
        check_sampling,
        content_problem,
        finish_sampling,
        fit_content,
    )
    from mcpwire.types import encode

    uses_tools = request.tools is not None or request.tool_choice is not None
    if revision >= _NOV_2025 and not is_supported(
        "sampling.context", revision, declared
    ):
        # 2025-11-25 client/sampling, "Capabilities": SHOULD NOT be used if undeclared,
        # and a client may ignore it.
        request = attrs.evolve(request, include_context=None)
    messages = []
    for message in request.messages:
        for block in message.blocks:
            problem = content_problem(getattr(block, "type", None), revision)
            if problem is not None:
                raise LocalProtocolError(f"sampling: {problem}")
        messages.append(fit_content(message, revision, "sampling"))
    params = encode(attrs.evolve(request, messages=messages), revision)
    try:
        # Checked by the client's rules, so that no client refuses the request.
        checked = check_sampling(params, capability_object("sampling.tools"))
    except InvalidParams as error:
        raise LocalProtocolError(error.message) from error

    def decode_answer(answer: dict[str, Any]) -> CreateMessageResult:
        from mcpwire.types import CreateMessageResult, decode

        result = decode(CreateMessageResult, answer)
        finish_sampling(checked, revision, result)
        return result

    capability = "sampling.tools" if uses_tools else "sampling"
    return InputRequest("sample", SAMPLE, capability, params, decode_answer)

"""Builds a server's requests to its client: a form, a URL, a model's answer, the roots.

This is the server's side; the client's is `client_features`. An `InputRequest` holds
the params as the revision has them, the capability that the client must have declared,
and the decoder of its answer. It travels as a request in a session, and in an
input-required result from 2026-07-28 on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire._text import excerpt
from mcpwire.errors import InvalidMessage, InvalidParams, LocalProtocolError
from mcpwire.protocol.methods import (
    ELICIT,
    ROOTS,
    SAMPLE,
    available,
    capability_declared,
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

__all__ = [
    "InputRequest",
    "capability_object",
    "create_message",
    "elicit_form",
    "elicit_url",
    "is_supported",
    "list_roots",
]

_NOV_2025: Final = REVISIONS[3]

_METHODS: Final = {"elicitation": ELICIT, "sampling": SAMPLE, "roots": ROOTS}


@attrs.frozen
class InputRequest:
    """One request for input, ready to be sent."""

    key_prefix: str
    """The start of its key, unless the author chose one."""

    method: str

    capability: str
    """The path of the capability that it needs."""

    params: dict[str, Any] = attrs.field(repr=False)

    decode: Callable[[dict[str, Any]], Any] = attrs.field(repr=False)
    """Decodes the answer; raises `InvalidMessage` or `LocalProtocolError`."""


def is_supported(
    capability: str, revision: Revision, declared: Mapping[str, Any] | None
) -> bool:
    """Tell whether a client has a capability and the revision a method for it."""
    family, _, mode = capability.partition(".")
    method = _METHODS.get(family)
    if method is not None:
        if available(method, revision, "server") is None:
            return False
        # 2025-11-25 made kinds of them; before, an elicitation was a form.
        if mode and revision < _NOV_2025:
            if capability != "elicitation.form":
                return False
            capability = family
    return capability_declared(declared, capability)


def capability_object(capability: str) -> JsonObject:
    """Return the capabilities object that declares one capability."""
    declared: JsonObject = {}
    for name in reversed(capability.split(".")):
        declared = {name: declared}
    return declared


# --- the client's user


def elicit_form(message: str, schema: JsonObject) -> InputRequest:
    """Ask the user to fill in a form, with a schema of the revision."""
    # 2025-11-25 client/elicitation: no mode means form, and before there are no modes.
    params = {"message": message, "requestedSchema": schema}
    return InputRequest("elicit", ELICIT, "elicitation.form", params, _decode_elicited)


def elicit_url(
    message: str, url: str, revision: Revision, *, elicitation_id: str
) -> InputRequest:
    """Ask the user to visit a URL, or raise `LocalProtocolError`."""
    from mcpwire.protocol.elicitation import url_problem

    # 2025-11-25 client/elicitation, "URL Mode Elicitation Requests": a valid URL.
    problem = url_problem(url, plain_http=True)
    if problem is not None:
        raise LocalProtocolError(f"elicitation {problem}")
    params = {"mode": "url", "message": message, "url": url}
    if revision == _NOV_2025:
        params["elicitationId"] = elicitation_id
    return InputRequest("elicit", ELICIT, "elicitation.url", params, _decode_elicited)


def _decode_elicited(answer: dict[str, Any]) -> ElicitResult:
    from mcpwire.types import ElicitResult, decode

    return decode(ElicitResult, answer)


# --- the client's roots


def list_roots() -> InputRequest:
    """Ask for the folders and files that the client lets the server work in."""
    return InputRequest("roots", ROOTS, "roots", {}, _decode_roots)


def _decode_roots(answer: dict[str, Any]) -> list[Root]:
    from mcpwire.types import ListRootsResult, decode

    found = decode(ListRootsResult, answer).roots
    for index, root in enumerate(found):
        # 2026-07-28 client/roots, "Root": MUST be a file:// URI.
        if not root.uri.startswith("file://"):
            raise InvalidMessage(
                f"ListRootsResult.roots[{index}].uri",
                expected="a file:// URI",
                got=excerpt(root.uri),
            )
    return found


# --- the client's model


def create_message(
    request: CreateMessageRequestParams,
    revision: Revision,
    declared: Mapping[str, Any],
) -> InputRequest:
    """Ask for an answer of the client's model, or raise `LocalProtocolError`."""
    from mcpwire.protocol.client_features import (
        check_sampling,
        finish_sampling,
        fit_content,
        kind_problem,
    )
    from mcpwire.types import encode

    uses_tools = request.tools is not None or request.tool_choice is not None
    if revision >= _NOV_2025 and not is_supported(
        "sampling.context", revision, declared
    ):
        # 2025-11-25 client/sampling, "Capabilities": SHOULD NOT be used undeclared, and
        # a client may always ignore it.
        request = attrs.evolve(request, include_context=None)
    messages = []
    for message in request.messages:
        for block in message.blocks:
            problem = kind_problem(getattr(block, "type", None), revision)
            if problem is not None:
                raise LocalProtocolError(f"sampling: {problem}")
        messages.append(fit_content(message, revision, "sampling"))
    params = encode(attrs.evolve(request, messages=messages), revision)
    try:
        # The client's own rules: a request that they refuse is not sent.
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

"""Builds a server's requests to its client: a form, a URL, a model's answer, the roots.

An `InputRequest` holds the params as the revision has them, the capability that the
client must have declared, and the decoder of its answer. It travels as a request in a
session, and in an input-required result from 2026-07-28 on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire._text import excerpt
from mcpwire.errors import InvalidMessage, InvalidParams, LocalProtocolError
from mcpwire.protocol.methods import available, capability_declared
from mcpwire.versions import REVISIONS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcpwire.types import (
        CreateMessageRequestParams,
        CreateMessageResult,
        ElicitResult,
        JsonObject,
        Root,
        SamplingMessage,
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

ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"

_METHODS: Final = {"elicitation": ELICIT, "sampling": SAMPLE, "roots": ROOTS}


@attrs.frozen(kw_only=True)
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
    """Tell whether a client has a capability and the revision a method for it.

    Args:
        capability: Its path, such as ``sampling`` or ``elicitation.url``.
        revision: The revision that governs the request.
        declared: The capabilities that the client declared.
    """
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
    return _elicit("elicitation.form", params)


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
    return _elicit("elicitation.url", params)


def _elicit(capability: str, params: dict[str, Any]) -> InputRequest:
    def decode_answer(answer: dict[str, Any]) -> ElicitResult:
        from mcpwire.types import ElicitResult, decode

        return decode(ElicitResult, answer)

    return InputRequest(
        key_prefix="elicit",
        method=ELICIT,
        capability=capability,
        params=params,
        decode=decode_answer,
    )


# --- the client's roots


def list_roots() -> InputRequest:
    """Ask for the folders and files that the client lets the server work in."""
    return InputRequest(
        key_prefix="roots",
        method=ROOTS,
        capability="roots",
        params={},
        decode=_decode_roots,
    )


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
    from mcpwire.protocol.client_features import check_sampling, finish_sampling
    from mcpwire.types import encode

    uses_tools = request.tools is not None or request.tool_choice is not None
    if revision >= _NOV_2025 and not is_supported(
        "sampling.context", revision, declared
    ):
        # 2025-11-25 client/sampling, "Capabilities": SHOULD NOT be used undeclared, and
        # a client may always ignore it.
        request = attrs.evolve(request, include_context=None)
    messages = [_as_of(revision, message) for message in request.messages]
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

    return InputRequest(
        key_prefix="sample",
        method=SAMPLE,
        capability="sampling.tools" if uses_tools else "sampling",
        params=params,
        decode=decode_answer,
    )


def _as_of(revision: Revision, message: SamplingMessage) -> SamplingMessage:
    """Return a message as the revision has it: before 2025-11-25 with one block.

    Raises `LocalProtocolError`.
    """
    from mcpwire.protocol.client_features import SAMPLING_CONTENT

    for block in message.blocks:
        kind = getattr(block, "type", None)
        since = SAMPLING_CONTENT.get(kind)
        if since is None or revision < since:
            raise LocalProtocolError(
                f"sampling: content of type {kind!r} does not exist at {revision}"
            )
    if revision >= _NOV_2025 or not isinstance(message.content, list):
        return message
    if len(message.content) != 1:
        raise LocalProtocolError(
            f"sampling: a message must have one block of content at {revision}, "
            f"got {len(message.content)}"
        )
    return attrs.evolve(message, content=message.content[0])

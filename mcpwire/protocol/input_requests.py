"""What a server asks of a client: forms, URLs, its model, its roots.

For each there is a `InputRequest`: the params as the revision has them, what the client
must have declared, and how its answer is read. Which way a question travels (a request
in a session, a result from 2026-07-28 on) is nothing to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

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

_NOV_2024, _MAR_2025, _JUN_2025, _NOV_2025, *_ = REVISIONS

ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"

_METHODS: Final = {"elicitation": ELICIT, "sampling": SAMPLE, "roots": ROOTS}

_BLOCKS: Final[Mapping[object, Revision]] = {
    "text": _NOV_2024,
    "image": _NOV_2024,
    "audio": _MAR_2025,
    "tool_use": _NOV_2025,
    "tool_result": _NOV_2025,
}
"""The kinds of content in sampling, and since when each is one."""

_EXCERPT_CHARACTERS: Final = 40


@attrs.frozen(kw_only=True)
class InputRequest:
    """One question, ready to be sent."""

    kind: str
    """What its key begins with, where it is only counted."""

    method: str

    needs: str
    """The path of the capability without which it must not be asked."""

    params: dict[str, Any] = attrs.field(repr=False)

    read: Callable[[dict[str, Any]], Any] = attrs.field(repr=False)
    """Makes the typed answer of the raw one.

    Raises `InvalidMessage` or `LocalProtocolError` for what is no answer to it.
    """


# --- what a client can be asked


def is_supported(
    what: str, revision: Revision, capabilities: Mapping[str, Any] | None
) -> bool:
    """Tell whether a client can be asked for something there.

    Args:
        what: The path of a capability, such as ``sampling`` or ``elicitation.url``.
        revision: The revision that governs the request.
        capabilities: What the client declared.
    """
    family, _, mode = what.partition(".")
    method = _METHODS.get(family)
    if method is not None:
        if available(method, revision, "server") is None:
            return False
        # 2025-11-25 made kinds of them; before, an elicitation was a form.
        if mode and revision < _NOV_2025:
            if what != "elicitation.form":
                return False
            what = family
    return capability_declared(capabilities, what)


def capability_object(what: str) -> JsonObject:
    """Return the capabilities that a client must declare to be asked for something."""
    declared: JsonObject = {}
    for name in reversed(what.split(".")):
        declared = {name: declared}
    return declared


# --- the client's user


def elicit_form(message: str, schema: JsonObject) -> InputRequest:
    """Ask the user to fill in a form.

    Args:
        message: What the user is told.
        schema: The form, as the revision has it.
    """
    # 2025-11-25 client/elicitation: no mode means form, and before there are no modes.
    params = {"message": message, "requestedSchema": schema}
    return _elicit("elicitation.form", params)


def elicit_url(
    message: str, url: str, revision: Revision, *, elicitation_id: str
) -> InputRequest:
    """Ask the user to visit a URL.

    Raises:
        LocalProtocolError: It is no URL that a client may show.
    """
    from mcpwire.protocol.elicitation import url_problem

    # 2025-11-25 client/elicitation, "URL Mode Elicitation Requests": a valid URL.
    problem = url_problem(url, plain_http=True)
    if problem is not None:
        raise LocalProtocolError(f"elicitation {problem}")
    params = {"mode": "url", "message": message, "url": url}
    if revision == _NOV_2025:
        params["elicitationId"] = elicitation_id
    return _elicit("elicitation.url", params)


def _elicit(needs: str, params: dict[str, Any]) -> InputRequest:
    return InputRequest(
        kind="elicit", method=ELICIT, needs=needs, params=params, read=_read_elicited
    )


def _read_elicited(answer: dict[str, Any]) -> ElicitResult:
    from mcpwire.types import ElicitResult, decode

    return decode(ElicitResult, answer)


# --- the client's roots


def list_roots() -> InputRequest:
    """Ask which folders and files the client lets us work in."""
    return InputRequest(
        kind="roots", method=ROOTS, needs="roots", params={}, read=_read_roots
    )


def _read_roots(answer: dict[str, Any]) -> list[Root]:
    from mcpwire.types import ListRootsResult, decode

    found = decode(ListRootsResult, answer).roots
    for index, root in enumerate(found):
        # 2026-07-28 client/roots, "Root": MUST be a file:// URI.
        if not root.uri.startswith("file://"):
            raise InvalidMessage(
                f"ListRootsResult.roots[{index}].uri",
                expected="a file:// URI",
                got=repr(root.uri[:_EXCERPT_CHARACTERS]),
            )
    return found


# --- the client's model


def create_message(
    request: CreateMessageRequestParams,
    revision: Revision,
    capabilities: Mapping[str, Any],
) -> InputRequest:
    """Ask for an answer of the client's model.

    Raises:
        LocalProtocolError: The conversation breaks a rule of the revision.
    """
    from mcpwire.protocol.client_features import Sampling, prepare_sampling
    from mcpwire.types import encode

    uses_tools = request.tools is not None or request.tool_choice is not None
    needs = "sampling.tools" if uses_tools else "sampling"
    if (
        not is_supported("sampling.context", revision, capabilities)
        and revision >= _NOV_2025
    ):
        # 2025-11-25 client/sampling, "Capabilities": SHOULD NOT be used undeclared, and
        # a client may always ignore it.
        request = attrs.evolve(request, include_context=None)
    for message in request.messages:
        _check_message(message, revision)
    messages = [_as_early(message, revision) for message in request.messages]
    params = encode(attrs.evolve(request, messages=messages), revision)
    try:
        # The client's own rules: what they refuse is not sent to begin with.
        checked = prepare_sampling(
            Sampling(_nobody), params, revision, capability_object("sampling.tools")
        )
    except InvalidParams as error:
        raise LocalProtocolError(error.message) from error

    def read(answer: dict[str, Any]) -> CreateMessageResult:
        from mcpwire.types import CreateMessageResult, decode

        result = decode(CreateMessageResult, answer)
        checked.finish(result)
        return result

    return InputRequest(
        kind="sample", method=SAMPLE, needs=needs, params=params, read=read
    )


def _nobody(_: CreateMessageRequestParams) -> CreateMessageResult:
    raise AssertionError("only the check before a handler is used")


def _check_message(message: SamplingMessage, revision: Revision) -> None:
    for block in message.blocks:
        kind = getattr(block, "type", None)
        since = _BLOCKS.get(kind)
        if since is None or revision < since:
            raise LocalProtocolError(
                f"sampling: content of type {kind!r} does not exist at {revision}"
            )


def _as_early(message: SamplingMessage, revision: Revision) -> SamplingMessage:
    """Return a message whose content is one block where the revision has no lists."""
    if revision >= _NOV_2025 or not isinstance(message.content, list):
        return message
    if len(message.content) != 1:
        raise LocalProtocolError(
            f"sampling: a message must have one block of content at {revision}, "
            f"got {len(message.content)}"
        )
    return attrs.evolve(message, content=message.content[0])

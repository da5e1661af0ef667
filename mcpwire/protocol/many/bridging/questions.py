"""What a server asks of a client, in the form that the client's revision has for it.

A question crosses as it came but for what one revision has and another one has not: the
mode of a form, the id of a visit to a URL, several blocks in one message. Each rule
stands beside the statement of the specification that makes it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InternalError, InvalidParams, MethodNotFound
from mcpwire.protocol.methods import available
from mcpwire.protocol.serving.questions import can
from mcpwire.versions import REVISIONS, Era

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.errors import RPCError
    from mcpwire.versions import Revision

__all__ = [
    "ELICIT",
    "ROOTS",
    "SAMPLE",
    "answer_across",
    "question_across",
    "refusal",
    "visits_of",
]

_NOV_2024, _MAR_2025, _JUN_2025, _NOV_2025, *_ = REVISIONS

ELICIT: Final = "elicitation/create"
SAMPLE: Final = "sampling/createMessage"
ROOTS: Final = "roots/list"

_FAMILIES: Final = {ELICIT: "elicitation", SAMPLE: "sampling", ROOTS: "roots"}

_EXCERPT_CHARACTERS: Final = 40


def refusal(
    method: str,
    params: Mapping[str, Any] | None,
    revision: Revision,
    capabilities: Mapping[str, Any],
) -> RPCError | None:
    """Return why a client cannot be asked that; ``None``: it can.

    Args:
        method: The question.
        params: Its params.
        revision: What the client speaks.
        capabilities: What it declared.
    """
    family = _FAMILIES.get(method)
    if family is None or available(method, revision, "server") is None:
        return MethodNotFound(
            f"the client behind the gateway does not answer {_excerpt(method)}"
        )
    if params is None and method != ROOTS:
        return InvalidParams(f"{method} needs params")
    needed = family
    if method == ELICIT:
        assert params is not None
        needed = (
            "elicitation.url" if params.get("mode") == "url" else "elicitation.form"
        )
    if can(needed, revision, capabilities):
        return None
    # 2025-11-25 client/elicitation, "Error Handling": a mode that was not declared is
    # -32602; a capability that was not, is no method.
    if capabilities.get(family) is not None:
        return InvalidParams(f"the client behind the gateway did not declare {needed}")
    return MethodNotFound(f"the client behind the gateway did not declare {family}")


def question_across(
    method: str, params: Mapping[str, Any] | None, goes: Revision, *, new_id: str
) -> dict[str, Any] | None:
    """Return a question's params as the revision of who answers has them.

    Args:
        method: The question.
        params: Its params as they came.
        goes: What the one who is asked speaks.
        new_id: The id of a visit to a URL, where the asker's revision has none.
    """
    if params is None:
        return None
    made = _without_hop(params)
    if method == ELICIT:
        return _elicitation(made, goes, new_id)
    if method == SAMPLE and goes < _NOV_2025:
        return _conversation(made)
    return made


def _without_hop(params: Mapping[str, Any]) -> dict[str, Any]:
    """Leave out the token of progress, of which nobody tells anything here."""
    made = dict(params)
    meta = made.get("_meta")
    if type(meta) is dict and "progressToken" in meta:
        left = {key: value for key, value in meta.items() if key != "progressToken"}
        made.pop("_meta")
        if left:
            made["_meta"] = left
    return made


def _elicitation(params: dict[str, Any], goes: Revision, new_id: str) -> dict[str, Any]:
    if goes < _NOV_2025:
        params.pop("mode", None)  # which can only be "form" here
    elif params.get("mode") == "url":
        if goes.era is Era.STATELESS:
            params.pop("elicitationId", None)  # 2026-07-28 tells of no completion
        else:
            params.setdefault("elicitationId", new_id)
    return params


def _conversation(params: dict[str, Any]) -> dict[str, Any]:
    """Let each message have one block, as before SEP-1577."""
    messages = params.get("messages")
    if type(messages) is list:
        params["messages"] = [each for one in messages for each in _single(one)]
    return params


def _single(message: Any) -> list[Any]:
    content = message.get("content") if type(message) is dict else None
    if type(content) is not list:
        return [message]
    return [{**message, "content": block} for block in content]


def answer_across(
    method: str, answer: dict[str, Any], asks: Revision
) -> dict[str, Any]:
    """Return an answer as the revision of who asked has it; most often the very same.

    Raises:
        InternalError: That revision has no form for it.
    """
    content = answer.get("content")
    if method != SAMPLE or asks >= _NOV_2025 or type(content) is not list:
        return answer
    if len(content) != 1:
        raise InternalError(
            f"the client answered with {len(content)} blocks of content, "
            f"and {asks} has exactly one"
        )
    return {**answer, "content": content[0]}


def visits_of(data: Any) -> list[dict[str, Any]]:
    """Return the visits to URLs that an error asks for (-32042, 2025-11-25 only).

    They are params of elicitations; what is none is left out.
    """
    listed = data.get("elicitations") if type(data) is dict else None
    return [
        each
        for each in (listed if type(listed) is list else ())
        if type(each) is dict
        and type(each.get("url")) is str
        and type(each.get("message")) is str
    ]


def _excerpt(text: str) -> str:
    return repr(text[:_EXCERPT_CHARACTERS])

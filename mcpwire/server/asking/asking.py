"""Gets a question its answer: in between, or with the client's next request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.errors import (
    InternalError,
    InvalidParams,
    MCPError,
    MissingCapability,
    RequestTimeout,
    RPCError,
    ToolError,
)
from mcpwire.protocol.input_requests import capability_object, is_supported
from mcpwire.server.asking.rounds import may_ask
from mcpwire.versions import Era

if TYPE_CHECKING:
    from mcpwire.protocol.input_requests import InputRequest
    from mcpwire.server.asking.rounds import Rounds
    from mcpwire.server.request import RequestContext

__all__ = ["ask", "can_ask", "check_declared"]


def can_ask(request: RequestContext, what: str) -> bool:
    """Tell whether the client of a request can be asked for something."""
    reaches = request.can_ask or may_ask(request)
    return reaches and is_supported(what, request.revision, request.client_capabilities)


async def ask(
    question: InputRequest, request: RequestContext, rounds: Rounds, key: str | None
) -> Any:
    """Return the typed answer to a question.

    Raises:
        InputNeeded: There is none yet; the client will call again with it.
        MissingCapability: The client did not declare that it can answer
            (2026-07-28).
        InvalidParams: What it answered is malformed (2026-07-28).
        ToolError: In a session or a task: it cannot answer, refused, answered
            something malformed or did not answer in time. Elsewhere than in a tool an
            `InternalError` says so.
        ValueError: The key is none, or another question has it.
    """
    check_declared(question, request)
    name = rounds.name(question.key_prefix, key)
    if request.can_ask or request.revision.era is Era.SESSION:
        return await _ask_between(question, request, name)
    answer = await rounds.ask(
        name, question.method, question.params, is_named=key is not None
    )
    try:
        return question.decode(answer)
    except (MCPError, ValueError) as error:
        # 2026-07-28 basic/patterns/mrtr, "Error Handling".
        raise InvalidParams(f"params.inputResponses[{name!r}]: {error}") from error


async def _ask_between(
    question: InputRequest, request: RequestContext, name: str
) -> Any:
    method = question.method
    try:
        answer = await request.ask(method, question.params, key=name)
    except RPCError as error:
        said = error.message or f"error {error.code}"
        raise _failure(request, f"the client refused {method!r}: {said}") from error
    except RequestTimeout as error:
        raise _failure(
            request, f"the client did not answer {method!r} in time"
        ) from error
    try:
        return question.decode(answer)
    except (MCPError, ValueError) as error:
        sentence = f"the client's answer to {method!r} is malformed: {error}"
        raise _failure(request, sentence) from error


def check_declared(question: InputRequest, request: RequestContext) -> None:
    """Let a question pass that the client declared it can answer.

    Raises:
        MissingCapability: It did not (2026-07-28).
        ToolError: It did not, in a session; elsewhere than in a tool `InternalError`.
    """
    if is_supported(question.capability, request.revision, request.client_capabilities):
        return
    sentence = (
        f"{question.method!r} needs a client that declares {question.capability!r}, "
        "which this one does not"
    )
    if request.revision.era is Era.SESSION:
        raise _failure(request, sentence)
    # 2026-07-28 basic, "_meta": what cannot be done without it MUST be refused so.
    raise MissingCapability(
        sentence, data={"requiredCapabilities": capability_object(question.capability)}
    )


def _failure(request: RequestContext, sentence: str) -> MCPError:
    if request.method == "tools/call":
        return ToolError(sentence)
    return InternalError(sentence)

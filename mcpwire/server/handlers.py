"""Runs one handler and makes an answer of whatever comes of it.

2025-11-25 server/tools, "Error Handling": what goes wrong inside a tool is a result
that says so, which a model can read; everything else is a JSON-RPC error. The text of
an unforeseen exception may hold what the client must not see, so it stays in the log.
"""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any, Final

from mcpwire.errors import InternalError, InvalidParams, RPCError, ToolError
from mcpwire.server.asking.rounds import InputNeeded, deciding, finish
from mcpwire.server.log_limit import LimitedLogger, place_of

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpwire.server.request import RequestContext

    Answer = dict[str, Any] | Awaitable[dict[str, Any]]
    Handler = Callable[[dict[str, Any], RequestContext], Answer]
    """Takes a request's params and context; returns the result, or raises."""

__all__ = [
    "TOOLS_CALL",
    "HttpRefusal",
    "answer_for",
    "check_result",
    "run_handler",
    "tool_failure",
]

logger = LimitedLogger("mcpwire")

TOOLS_CALL: Final = "tools/call"

RESOURCE_NOT_FOUND: Final = -32002

EXCERPT: Final = 100
"""How much of a name that the client chose the log repeats."""

_STATELESS_CODES: Final = frozenset(
    {-32700, -32600, -32601, -32602, -32603, -32020, -32021, -32022}
)
"""What JSON-RPC and 2026-07-28 define of the range that they reserve, -32768 to -32000:
an application's own codes stand outside of it."""


class HttpRefusal(Exception):
    """Mixed into errors that HTTP answers with a status of their own.

    Attributes:
        http_status: The status.
        http_headers: Fields of the answer: names in lower case, and values.
    """

    http_status: int
    http_headers: tuple[tuple[str, str], ...] = ()


async def run_handler(
    handler: Handler, params: dict[str, Any], request: RequestContext
) -> dict[str, Any]:
    """Return what the handler returns, or a result that says the tool failed.

    Raises:
        RPCError: This is the answer.
    """
    try:
        outcome = handler(params, request)
        result = await outcome if inspect.isawaitable(outcome) else outcome
    except BaseException as raised:  # noqa: BLE001 - the boundary of handlers
        return answer_for(raised, request)
    if type(result) is not dict:
        check_result(result, request)
    return result


def check_result(result: object, request: RequestContext) -> None:
    """Refuse what is no result.

    Raises:
        InternalError: It is none; this is the answer.
    """
    if type(result) is not dict:
        logger.error(
            "the handler of %s returned no dict but a %s",
            _named(request),
            type(result).__name__,
            kind=request.method,
        )
        raise InternalError("the handler failed")


def answer_for(raised: BaseException, request: RequestContext) -> dict[str, Any]:
    """Return the result that an exception of a handler makes.

    Raises:
        RPCError: This is the answer.
        BaseException: It was not the handler's: we are cancelled, or to end.
    """
    error = deciding(raised) if isinstance(raised, BaseExceptionGroup) else raised
    try:
        if isinstance(error, InputNeeded):
            return finish(request)
        if isinstance(error, RPCError):
            raise _in_era(error, request) from raised
        if isinstance(error, ToolError) and request.method == TOOLS_CALL:
            return tool_failure(str(error))
        if isinstance(error, asyncio.CancelledError):
            # Ours comes through the task. Any other is a failure like the rest, and its
            # request must not stay without an answer.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise error
        elif isinstance(error, (GeneratorExit, KeyboardInterrupt)):
            raise error  # the loop ends, and we with it
        return _contain(raised, request)
    finally:
        # What is raised here leads to this frame: with these it would keep the request
        # until the garbage collector comes.
        del raised, error


def _contain(error: BaseException, request: RequestContext) -> dict[str, Any]:
    """Log what went wrong; tell the client no more than that it did."""
    raised = request.facts.contained
    if raised is None or not raised(request.id, error):
        message, kind = "the handler of %s raised", place_of(error)
        logger.error(message, _named(request), kind=kind, exc_info=error)
    if request.method == TOOLS_CALL:
        return tool_failure("the tool failed")
    raise InternalError("the handler failed") from error


def _named(request: RequestContext) -> str:
    """Return what was asked for: what is raised need not come from its function."""
    params = request.params
    name = params.get("name", params.get("uri"))
    what = f" of {name[:EXCERPT]!r}" if type(name) is str else ""
    return f"{request.method!r}{what}"


def tool_failure(text: str) -> dict[str, Any]:
    """Return the result of a tool that failed, with what the model is told."""
    return {"content": [{"type": "text", "text": text}], "isError": True}


def _in_era(error: RPCError, request: RequestContext) -> RPCError:
    """Return an error with a code that its era lets a server send.

    2026-07-28 basic, "Error Codes": -32002 became -32602, -32042 is gone, and codes of
    the reserved range that it does not define MUST NOT be sent.
    """
    code = error.code
    if request.session is not None or not -32768 <= code <= -32000:
        return error
    if code == RESOURCE_NOT_FOUND:
        return InvalidParams(error.message, data=error.data)
    if code in _STATELESS_CODES:
        return error
    logger.error("%r: a server must not send the error code %d", request.method, code)
    return InternalError("the handler failed")

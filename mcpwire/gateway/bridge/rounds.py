"""Input rounds of a server of the stateless era, for a client that has a session.

The server answers with questions; the gateway asks the client, by requests of its own,
and makes the call again with the answers, until there is a result
(2026-07-28 basic/patterns/mrtr; the steps stand in `protocol.multistep`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mcpwire.errors import InternalError, MCPError, RPCError, ToolError
from mcpwire.gateway.translation import passed_error
from mcpwire.protocol.multistep import COMPLETE, Ask, Call, Sleep, input_rounds

if TYPE_CHECKING:
    from mcpwire.gateway.bridge.forwarding import Sending
    from mcpwire.protocol.multistep import Step

__all__ = ["finish"]


async def finish(sending: Sending, raw: dict[str, Any]) -> dict[str, Any]:
    """Return the complete result of a call that began with this one.

    Raises:
        RPCError: The client refused, or the server failed.
        ToolError: The client refused what a tool asked.
    """
    if raw.get("resultType", COMPLETE) == COMPLETE:
        return raw
    client = sending.client
    settings, profile = client.connection.settings, client.profile
    assert profile.agreement is not None
    steps = input_rounds(
        sending.method,
        sending.params,
        raw,
        revision=profile.agreement.revision,
        extensions=profile.extensions,
        limit=settings.limits.input_rounds,
        most=settings.limits.questions,
        recovery=settings.recovery,
    )
    try:
        step = next(steps)
        while True:
            step = steps.send(await _take(sending, step))
    except StopIteration as done:
        result: dict[str, Any] = done.value
        return result
    except RPCError:
        raise
    except ToolError:
        raise
    except MCPError as error:
        raise passed_error(sending.name, sending.method, error) from error


async def _take(sending: Sending, step: Step) -> Any:
    if type(step) is Ask:
        return await _ask(sending, step)
    if type(step) is Sleep:
        return await sending.client.connection.sleep(step.seconds)
    assert type(step) is Call  # these are all steps of rounds
    return await sending.send(dict(step.params))


async def _ask(sending: Sending, step: Ask) -> dict[str, Any]:
    """Let the client answer; its time is not the server's."""
    connection, deadline = sending.client.connection, sending.deadline
    agreement = sending.client.profile.agreement
    assert agreement is not None
    if deadline is not None:
        limits = connection.settings.limits
        deadline.pause(connection.time(), limits.question_time)
    try:
        return await sending.relay.ask(
            step.method, step.params, agreement.revision, sending.call
        )
    except RPCError as error:
        # 2026-07-28 basic/patterns/mrtr: no answer says that there is none, so the call
        # is not gone on with. What runs a tool learns why, as from any server.
        sentence = f"the client refused {step.method!r}: {error.message}"
        if sending.method == "tools/call":
            raise ToolError(sentence) from error
        raise InternalError(sentence, data={"code": error.code}) from error
    finally:
        if deadline is not None:
            deadline.resume(connection.time())

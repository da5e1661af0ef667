"""The one way that a client's request takes to the server it is for, and back.

It bridges the eras of client and server; `translation` has the forms of messages:

    client    server     a question of the server's
    session   session    is a request on both sides (`Relay.ask`)
    session   stateless  comes as a result; the gateway asks, and calls again (`rounds`)
    stateless stateless  comes as a result, and goes through as it is
    stateless session    is the result; the call waits for the next one (`suspended`)
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from mcpwire.client.requests import Options
from mcpwire.errors import (
    CallCancelled,
    InternalError,
    MCPError,
    MethodNotFound,
    RequestTimeout,
    RPCError,
    ToolError,
    TransportError,
    UrlElicitationRequired,
)
from mcpwire.gateway.relay import RelayedCall, take_headers
from mcpwire.gateway.tasks import created
from mcpwire.gateway.translation import (
    ELICIT,
    can_be_asked,
    declared_again,
    passed_error,
    passed_meta,
    passed_result,
    question_across,
    visits_of,
    without_rounds,
)
from mcpwire.protocol.methods import available, capability_declared, declared_extensions
from mcpwire.protocol.multistep import (
    COMPLETE,
    INPUT_REQUIRED,
    TASK,
    Ask,
    Call,
    Sleep,
    input_rounds,
)
from mcpwire.types import UNSET
from mcpwire.types._base import CLIENT_CAPABILITIES, LOG_LEVEL
from mcpwire.versions import LATEST, Era

if TYPE_CHECKING:
    from collections.abc import Mapping

    from mcpwire.gateway.relay import RelayClient
    from mcpwire.gateway.suspended import ParkingLot
    from mcpwire.gateway.upstreams import Upstream, Upstreams
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.multistep import Step
    from mcpwire.server.request import RequestContext, Session
    from mcpwire.versions import Revision


__all__ = [
    "Sending",
    "finish",
    "forward",
]

VISIT: Final = "visit-"
"""How the keys of visits to URLs begin that a call failed for (-32042)."""


async def forward(
    upstream: Upstream,
    method: str,
    params: dict[str, Any],
    request: RequestContext,
    upstreams: Upstreams,
) -> dict[str, Any]:
    """Have a server perform a client's request; return the result, as it came.

    Cancelling it tells the server. A server that asks for something is answered by the
    client, whatever era either of them is of.

    Args:
        upstream: The server.
        method: The method.
        params: Its params, with the name or URI that the server knows. They are taken
            over: what belongs to one hop is taken out of them.
        request: The client's request.
        upstreams: The set that the server is of.

    Raises:
        RPCError: The server refused, or failed; this is the client's answer.
    """
    client: RelayClient = upstream.client
    profile = client.profile
    agreement = profile.agreement
    if agreement is None:
        raise InternalError(f"the server {upstream.name!r} is not connected")
    if method in profile.refused and not _is_on(upstream, method, request):
        raise MethodNotFound(f"the server {upstream.name!r} does not offer {method}")
    upstream.calls += 1
    params.pop("_meta", None)
    sending = Sending(upstream, method, params, request)
    era = agreement.revision.era
    if era is Era.STATELESS:
        sending.follow_capabilities(agreement.revision)
    if request.session is not None:
        if era is Era.STATELESS:
            sending.follow_level(request.session)
            raw = await finish(sending, await sending.send(params))
        else:
            raw = await sending.send(params)
            if "task" in params:
                raw = created(raw, upstream.name, upstreams.downstream.tasks)
        return passed_result(raw, era, Era.SESSION)
    if era is Era.SESSION:
        return await _across(sending, upstreams)
    return passed_result(await _alone(sending, upstreams), era, Era.STATELESS)


def _is_on(upstream: Upstream, method: str, request: RequestContext) -> bool:
    """Tell whether a request switches an extension on that it needs, by itself."""
    revision = upstream.revision
    if revision is None or revision.era is not request.era:
        return False
    extensions = declared_extensions(request.client_capabilities)
    spec = available(method, revision, "client", extensions)
    return spec is not None and spec.extension in declared_extensions(
        upstream.capabilities
    )


async def _alone(sending: Sending, upstreams: Upstreams) -> dict[str, Any]:
    """Have a server perform what stands alone on both sides."""
    request, params = sending.request, sending.params
    wanted = request.meta.get(LOG_LEVEL)
    if wanted is not None:
        sending.meta = {**(sending.meta or {}), LOG_LEVEL: wanted}
    downstream = upstreams.downstream
    if "requestState" in params:
        params["requestState"] = downstream.lot.opened_state(request)
    raw = await sending.send(params)
    kind = raw.get("resultType")
    if kind == TASK:
        return created(raw, sending.name, downstream.tasks)
    if kind == INPUT_REQUIRED and "requestState" in raw:
        state = downstream.lot.sealed_state(raw["requestState"], request)
        return {**raw, "requestState": state}
    return raw


async def _across(sending: Sending, upstreams: Upstreams) -> dict[str, Any]:
    """Have a session perform what stands alone."""
    request, method = sending.request, sending.method
    lot: ParkingLot = upstreams.downstream.lot
    may_ask = _may_ask(method)
    if may_ask and "requestState" in request.params:
        return await lot.go_on(request)
    if may_ask and _turned_down(request.params.get("inputResponses")):
        raise ToolError("the user did not visit the URL that the call needs")
    wanted = request.meta.get(LOG_LEVEL)
    if wanted is not None:
        await sending.relay.lower_level(sending.client, wanted)
    params = without_rounds(sending.params)
    try:
        if may_ask and can_be_asked(request.client_capabilities):
            work = partial(_send_across, sending, params)
            return await lot.perform(sending.call, work)
        return await _send_across(sending, params)
    except UrlElicitationRequired as error:
        return _visits(error, request, may_ask=may_ask)


async def _send_across(sending: Sending, params: dict[str, Any]) -> dict[str, Any]:
    return passed_result(await sending.send(params), Era.SESSION, Era.STATELESS)


def _may_ask(method: str) -> bool:
    spec = available(method, LATEST, "client")
    return spec is not None and spec.may_need_input


def _visits(
    error: UrlElicitationRequired, request: RequestContext, *, may_ask: bool
) -> dict[str, Any]:
    """Return the visits that a call failed for as questions: it is made again then.

    Raises:
        InternalError: The client cannot be asked for them.
    """
    visits = visits_of(error.data)
    declared = capability_declared(request.client_capabilities, "elicitation.url")
    if not (may_ask and declared and visits):
        # 2026-07-28 has no such code: an error may say it, and no more.
        raise InternalError(error.message, data=error.data) from error
    return {
        "resultType": INPUT_REQUIRED,
        "inputRequests": {
            f"{VISIT}{number}": {
                "method": ELICIT,
                "params": question_across(
                    ELICIT, {**visit, "mode": "url"}, LATEST, new_id=""
                ),
            }
            for number, visit in enumerate(visits, 1)
        },
    }


def _turned_down(responses: Any) -> bool:
    """Tell whether the user would not visit a URL that a call failed for."""
    return type(responses) is dict and any(
        key.startswith(VISIT)
        and (type(answer) is not dict or answer.get("action") != "accept")
        for key, answer in responses.items()
    )


class Sending:
    """One request of a client's on its way to one server.

    Args:
        upstream: The server.
        method: The method.
        params: The params, without `_meta`.
        request: The client's request.

    Attributes:
        client: The connection to the server.
        relay: What stands beside it.
        call: What follows the request.
        meta: What goes along in `_meta`.
        deadline: When the whole of it must be over.
    """

    __slots__ = (
        "call",
        "client",
        "deadline",
        "meta",
        "method",
        "name",
        "params",
        "relay",
        "request",
    )

    def __init__(
        self,
        upstream: Upstream,
        method: str,
        params: dict[str, Any],
        request: RequestContext,
    ) -> None:
        client: RelayClient = upstream.client
        self.client = client
        self.relay = client.relay
        self.name = upstream.name
        self.method = method
        self.params = params
        self.request = request
        self.call = RelayedCall(request)
        self.meta: Mapping[str, Any] | None = passed_meta(request.meta)
        self.deadline: Deadline | None = client.requests.deadline(UNSET)

    def follow_capabilities(self, revision: Revision) -> None:
        """Have the request say what its own client declared, where others share."""
        request = self.request
        declared = request.client_capabilities
        if declared != self.relay.downstream.capabilities:
            said = declared_again(declared, request.revision, revision)
            self.meta = {**(self.meta or {}), CLIENT_CAPABILITIES: said}

    def follow_level(self, session: Session) -> None:
        """Have each request ask for messages from the session's level on.

        A session sets a level once; until then a server chooses, and this one says
        what the gateway has chosen.
        """
        client, level = self.client, session.log_level
        if not client.profile.offers("logging"):
            return
        if self.relay.downstream.session is None:
            self.meta = {**(self.meta or {}), LOG_LEVEL: level}
        elif client.connection.log_level != level:
            client.connection.set_log_level(level)

    async def send(self, params: dict[str, Any]) -> dict[str, Any]:
        """Send the request once, or again where that is safe; return what comes.

        Raises:
            RPCError: The server refused, or failed; this is the client's answer.
        """
        client, call, method = self.client, self.call, self.method
        on_progress = call.heard if call.wants_progress else None
        relay = self.relay
        if relay.upstreams.gateway.forward_headers:
            take_headers(relay.upstreams, call.request)
        in_flight = relay.in_flight
        in_flight.add(call)
        try:
            try:
                return await client.requests.begin(
                    method,
                    dict(params),
                    self.deadline,
                    self.meta,
                    on_progress,  # type: ignore[arg-type] # of RelayRequests
                    None,
                    call,
                )
            except (TransportError, RPCError) as error:
                return await self._send_again(error, params, on_progress)
        except (asyncio.CancelledError, CallCancelled, RequestTimeout) as error:
            in_flight.cancel(call, asyncio.get_running_loop().time())
            if isinstance(error, asyncio.CancelledError):
                raise
            raise passed_error(self.name, method, error) from error
        except MCPError as error:
            raise passed_error(self.name, method, error) from error
        finally:
            in_flight.finish(call)

    async def _send_again(
        self, error: TransportError | RPCError, params: dict[str, Any], on_progress: Any
    ) -> dict[str, Any]:
        options = Options(
            self.deadline,
            self.meta,
            on_progress,
            handle=self.call,
            idempotent=self.client.may_repeat(self.method, params),
        )
        return await self.client.requests.perform_again(
            error, self.method, dict(params), options
        )


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

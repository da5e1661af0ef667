"""Relay of a client's request and its header fields to a server.

It also relays between sessions and stateless peers (`translation` converts messages):

    client    server     a server's request to the client
    session   session    is a request on both sides (`relay_request`)
    session   stateless  is a result; the gateway asks the client, and repeats the call
    stateless stateless  is a result, which is relayed
    stateless session    becomes the result; the call is suspended (`downstream`)
"""

from __future__ import annotations

import asyncio
from contextvars import ContextVar
from inspect import isawaitable
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.client.requests import Options
from mcpwire.errors import (
    AuthError,
    CallCancelled,
    InternalError,
    InvalidRequest,
    LocalProtocolError,
    MCPError,
    MethodNotFound,
    RequestTimeout,
    RPCError,
    ToolError,
    TransportError,
    UrlElicitationRequired,
)
from mcpwire.gateway import translation
from mcpwire.gateway.downstream import RelayedCall
from mcpwire.protocol import methods
from mcpwire.protocol.http_headers import check_headers
from mcpwire.protocol.multistep import (
    COMPLETE,
    INPUT_REQUIRED,
    TASK,
    Call,
    HandleInput,
    Sleep,
    run_input_rounds,
)
from mcpwire.server.log_limit import LimitedLogger
from mcpwire.transports.http.target import Http
from mcpwire.types import UNSET
from mcpwire.types._base import CLIENT_CAPABILITIES, LOG_LEVEL
from mcpwire.versions import LATEST, Era

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from mcpwire.gateway.upstream import Upstream
    from mcpwire.gateway.upstreams import Upstreams
    from mcpwire.protocol.deadline import Deadline
    from mcpwire.protocol.multistep import Step
    from mcpwire.server.request import RequestContext

    Json = dict[str, Any]

logger = LimitedLogger("mcpwire")

URL_KEY_PREFIX: Final = "visit-"
"""Key prefix of the URL elicitations that a failed call requires (-32042)."""


async def forward(
    upstream: Upstream, method: str, params: Json, request: RequestContext
) -> Json:
    """Send a client's request to a server; return its result in the client's form.

    Cancelling it cancels the request at the server. The client answers requests of the
    server, whatever the protocol versions of both. `params` hold the name or URI that
    is used at the server; the function changes them.
    """
    profile = upstream.client.connection.profile
    agreement = profile.agreement
    if agreement is None:
        raise InternalError(f"the server {upstream.name!r} is not connected")
    if method in profile.disabled and not _enables_extension(upstream, method, request):
        raise MethodNotFound(f"the server {upstream.name!r} does not offer {method}")
    upstream.calls += 1
    params.pop("_meta", None)
    relayed = RelayedRequest(upstream, method, params, request)
    if agreement.revision.era is Era.SESSION:
        if request.session is None:
            return await _stateless_to_session(relayed)
        raw = await relayed.send(params)
        if "task" in params:
            raw = upstream.downstream.tasks.record_task(upstream.name, raw)
            if relayed.call.wants_progress:
                upstream.keep_task_call(relayed.call)
        return translation.convert_result(raw, Era.SESSION, Era.SESSION)
    declared = request.client_capabilities
    if declared != upstream.downstream.capabilities:  # differs in a shared set
        capabilities = translation.convert_capabilities(
            declared, request.revision, agreement.revision
        )
        relayed.add_meta(CLIENT_CAPABILITIES, capabilities)
    if request.session is None:
        return translation.convert_result(
            await _stateless_to_stateless(relayed), Era.STATELESS, Era.STATELESS
        )
    _sync_log_level(relayed, request.session.log_level)
    raw = await _run_input_rounds(relayed, await relayed.send(params))
    return translation.convert_result(raw, Era.STATELESS, Era.SESSION)


def _enables_extension(
    upstream: Upstream, method: str, request: RequestContext
) -> bool:
    """Return whether the request itself enables the extension that it needs."""
    revision = upstream.revision
    if revision is None or revision.era is not request.era:
        return False
    extensions = methods.declared_extensions(request.client_capabilities)
    spec = methods.available_method(method, revision, "client", extensions)
    return spec is not None and spec.extension in methods.declared_extensions(
        upstream.capabilities
    )


def _sync_log_level(relayed: RelayedRequest, level: str) -> None:
    """Send a session's log level with each request to a stateless server."""
    connection = relayed.upstream.client.connection
    if not connection.profile.offers("logging"):
        return
    if relayed.upstream.downstream.session is None:
        relayed.add_meta(LOG_LEVEL, level)
    elif connection.log_level != level:
        connection.set_log_level(level)


async def _stateless_to_stateless(relayed: RelayedRequest) -> Json:
    """Send a stateless request to a stateless server."""
    request, params = relayed.request, relayed.params
    downstream = relayed.upstream.downstream
    level = request.meta.get(LOG_LEVEL)
    if level is not None:
        relayed.add_meta(LOG_LEVEL, level)
    if "requestState" in params:
        params["requestState"] = downstream.suspended.unseal_server_state(request)
    raw = await relayed.send(params)
    kind = raw.get("resultType")
    if kind == TASK:
        return downstream.tasks.record_task(relayed.upstream.name, raw)
    if kind == INPUT_REQUIRED and "requestState" in raw:
        state = downstream.suspended.seal_server_state(raw["requestState"], request)
        return {**raw, "requestState": state}
    return raw


async def _stateless_to_session(relayed: RelayedRequest) -> Json:
    """Send a stateless request to a server with a session."""
    request, upstream = relayed.request, relayed.upstream
    suspended = upstream.downstream.suspended
    spec = methods.available_method(relayed.method, LATEST, "client")
    may_need_input = spec is not None and spec.may_need_input
    try:
        if may_need_input and "requestState" in request.params:
            return await suspended.resume(request)
        if may_need_input and _is_declined(request.params.get("inputResponses")):
            raise ToolError("the user did not visit the URL that the call requires")
        level = request.meta.get(LOG_LEVEL)
        if level is not None:
            await upstream.set_level(level)
        coroutine = _send_to_session(relayed)
        declared = request.client_capabilities
        if may_need_input and translation.accepts_input_requests(declared):
            return await suspended.perform(relayed.call, coroutine)
        return await coroutine
    except UrlElicitationRequired as error:
        return _convert_to_input_requests(error, request, may_need_input=may_need_input)


async def _send_to_session(relayed: RelayedRequest) -> Json:
    params = translation.remove_members(relayed.params, translation.ROUND_MEMBERS)
    raw = await relayed.send(params)
    return translation.convert_result(raw, Era.SESSION, Era.STATELESS)


def _convert_to_input_requests(
    error: UrlElicitationRequired, request: RequestContext, *, may_need_input: bool
) -> Json:
    """Return the URL elicitations that a failed call requires, as input requests."""
    elicitations = translation.url_elicitations(error.data)
    declared = methods.is_capability_declared(
        request.client_capabilities, "elicitation.url"
    )
    if not (may_need_input and declared and elicitations):
        raise error
    return {
        "resultType": INPUT_REQUIRED,
        "inputRequests": {
            f"{URL_KEY_PREFIX}{number}": {
                "method": methods.ELICIT,
                "params": translation.convert_request(
                    methods.ELICIT, {**elicitation, "mode": "url"}, LATEST, new_id=""
                ),
            }
            for number, elicitation in enumerate(elicitations, 1)
        },
    }


def _is_declined(responses: Any) -> bool:
    """Return whether the user declined to visit a URL that a failed call requires."""
    return type(responses) is dict and any(
        key.startswith(URL_KEY_PREFIX)
        and (type(answer) is not dict or answer.get("action") != "accept")
        for key, answer in responses.items()
    )


class RelayedRequest:
    """One request of a client to one server; the params are without `_meta`."""

    def __init__(
        self, upstream: Upstream, method: str, params: Json, request: RequestContext
    ) -> None:
        self.upstream = upstream
        self.method = method
        self.params = params
        self.request = request
        self.call = RelayedCall(request)
        self.meta: Mapping[str, Any] | None = translation.convert_meta(request.meta)
        # One deadline for all input rounds together.
        self.deadline: Deadline | None = upstream.client.requests.deadline(UNSET)

    def add_meta(self, key: str, value: Any) -> None:
        """Add a member of `_meta`."""
        self.meta = {**(self.meta or {}), key: value}

    async def send(self, params: Json) -> Json:
        """Send the request, again on a failure if that is safe; return the result."""
        upstream, call, method = self.upstream, self.call, self.method
        requests = upstream.client.requests
        on_progress: Any = call.relay_progress if call.wants_progress else None
        if upstream.upstreams.gateway.forward_headers:
            apply_headers(upstream.upstreams, call.request)
        in_flight = upstream.in_flight
        in_flight.add(call)
        try:
            try:
                return await requests.begin(
                    method,
                    dict(params),
                    self.deadline,
                    self.meta,
                    on_progress,
                    None,
                    call,
                )
            except (AuthError, TransportError, RPCError) as error:
                options = Options(
                    self.deadline,
                    self.meta,
                    on_progress,
                    handle=call,
                    idempotent=upstream.client.may_repeat(method, params),
                )
                return await requests.perform_again(
                    error, method, dict(params), options
                )
        except (asyncio.CancelledError, CallCancelled, RequestTimeout) as error:
            in_flight.cancel(call, asyncio.get_running_loop().time())
            if isinstance(error, asyncio.CancelledError):
                raise
            raise translation.convert_error(upstream.name, method, error) from error
        except MCPError as error:
            if isinstance(error, TransportError):
                logger.warning(
                    "the server %r failed %s: %s",
                    upstream.name,
                    method,
                    error,
                    kind=upstream.name,
                    extra={"server": upstream.name, "error": error},
                )
            raise translation.convert_error(upstream.name, method, error) from error
        finally:
            in_flight.finish(call)


async def _run_input_rounds(relayed: RelayedRequest, raw: Json) -> Json:
    """Perform the input rounds that a result requires; return the final result."""
    if raw.get("resultType", COMPLETE) == COMPLETE:
        return raw
    connection = relayed.upstream.client.connection
    settings, profile = connection.settings, connection.profile
    assert profile.agreement is not None
    steps = run_input_rounds(
        relayed.method,
        relayed.params,
        raw,
        revision=profile.agreement.revision,
        extensions=profile.extensions,
        max_rounds=settings.limits.input_rounds,
        max_requests=settings.limits.questions,
        recovery=settings.recovery,
    )
    try:
        step = next(steps)
        while True:
            step = steps.send(await _perform_step(relayed, step))
    except StopIteration as done:
        result: Json = done.value
        return result
    except (RPCError, ToolError):
        raise
    except MCPError as error:
        name, method = relayed.upstream.name, relayed.method
        raise translation.convert_error(name, method, error) from error


async def _perform_step(relayed: RelayedRequest, step: Step) -> Any:
    if type(step) is HandleInput:
        return await _request_input(relayed, step)
    if type(step) is Sleep:
        return await relayed.upstream.client.connection.sleep(step.seconds)
    assert type(step) is Call  # input rounds have no other steps
    return await relayed.send(dict(step.params))


async def _request_input(relayed: RelayedRequest, step: HandleInput) -> Json:
    """Send an input request to the client, with the call's deadline paused."""
    upstream, deadline = relayed.upstream, relayed.deadline
    connection, revision = upstream.client.connection, upstream.revision
    assert revision is not None
    if deadline is not None:
        limits = connection.settings.limits
        deadline.pause(connection.time(), limits.question_time)
    try:
        return await upstream.relay_request(
            step.method, step.params, revision, relayed.call
        )
    except RPCError as error:
        # 2026-07-28 basic/patterns/mrtr: no answer can express a refusal, so the call
        # fails. For a tool, the caller gets the reason as a tool error.
        message = f"the client refused {step.method!r}: {error.message}"
        if relayed.method == "tools/call":
            raise ToolError(message) from error
        raise InternalError(message, data={"code": error.code}) from error
    finally:
        if deadline is not None:
            deadline.resume(connection.time())


# Forwarded header fields

NEVER_FORWARDED: Final = frozenset(
    {
        *("accept", "accept-encoding", "last-event-id", "origin", "user-agent"),
        *("authorization", "cookie", "set-cookie"),
        *("connection", "host", "keep-alive", "te", "trailer", "upgrade"),
        *("content-encoding", "content-length", "content-type", "transfer-encoding"),
        *("proxy-authenticate", "proxy-authorization", "proxy-connection"),
    }
)
"""Header fields that belong to one connection, or are credentials for one server only
(2025-11-25 basic/authorization, "Access Token Privilege Restriction")."""


def check_header_names(
    names: Iterable[str], private: Iterable[str] = ()
) -> tuple[str, ...]:
    """Check names of header fields to forward; return them in lower case, each once."""
    if isinstance(names, str):
        raise ValueError(f"the names of headers are a collection, got {names!r}")
    refused = NEVER_FORWARDED.union(map(str.lower, private))
    checked: dict[str, None] = {}
    candidates: Iterable[Any] = names
    for name in candidates:
        lower = name.lower() if isinstance(name, str) else ""
        if lower in refused or lower.startswith("mcp-"):
            raise ValueError(f"the header {name!r} is never forwarded")
        try:
            check_headers({name: ""})
        except LocalProtocolError as error:
            raise ValueError(str(error)) from None
        checked[lower] = None
    return tuple(checked)


def pick_headers(fields: Mapping[str, str], names: Iterable[str]) -> dict[str, str]:
    """Return the header fields of a request to forward, by lower-case name."""
    picked = {name: value for name in names if (value := fields.get(name)) is not None}
    try:
        check_headers(picked, "the request's headers")
    except LocalProtocolError as error:
        raise InvalidRequest(str(error)) from None
    return picked


_current_request: ContextVar[tuple[RequestContext, Mapping[str, str]] | None] = (
    ContextVar("mcpwire_gateway_current_request", default=None)
)


def apply_headers(upstreams: Upstreams, request: RequestContext) -> None:
    """Forward a request's header fields with all HTTP requests that it causes.

    In a session, HTTP requests without a cause get these fields as well, until the next
    request replaces all of them. In a shared set they get the fields of the set.
    """
    headers = upstreams.gateway.headers_to_forward(request.info)
    if upstreams.downstream.session is not None:
        upstreams.headers = headers
    _current_request.set((request, headers))


def with_forwarded_headers(target: Any, upstreams: Upstreams) -> Any:
    """Return an HTTP target that sends the forwarded header fields with all requests.

    Fields of the target itself take precedence. Other targets are returned unchanged.
    """
    if not upstreams.gateway.forward_headers or not isinstance(target, Http):
        return target
    configured: Any = target.headers

    async def headers() -> Mapping[str, str]:
        own = configured() if callable(configured) else configured
        if isawaitable(own):
            own = await own
        own = own or {}
        current = _current_request.get()
        # A task that a request started may still run after the response.
        is_current = current is not None and current[0].is_open
        forwarded = current[1] if current and is_current else upstreams.headers
        own_names = {name.lower() for name in own}
        inherited = {
            name: text for name, text in forwarded.items() if name not in own_names
        }
        return {**inherited, **own}

    copy = attrs.evolve(target, headers=headers)
    # Knowledge of the server and the tokens for it are shared with the original.
    object.__setattr__(copy, "memory", target.memory)
    object.__setattr__(copy, "grant", target.grant)
    return copy

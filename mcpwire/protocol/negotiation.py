"""Negotiation of the revision by a client: a state machine driven by the responses.

2026-07-28 basic/versioning and basic/transports/stdio, "Backward Compatibility". The
probe is `server/discover`, because a legacy server may run an early `tools/call`::

    PROBING ── modern response ───────────────────────► agreed, stateless
       │  └─── any other error, or the child exits ───► INITIALIZING
       └ timeout ► BOTH ── modern response, even late ─► agreed, stateless
                    │ └─── InitializeResult ──────────► agreed, session
                    └ -32022 to `initialize` ─────────► PROBING, without fallback
    INITIALIZING ── InitializeResult ─────────────────► agreed, session

If the session era is preferred, INITIALIZING is first, and an error leads to PROBING.

A timeout is not conclusive: a server that starts slowly fixes its era at the first
`server/discover` that it reads. So `initialize` is sent while the probe is still open,
and the first conclusive response wins.

Over HTTP (2026-07-28 basic/transports/streamable-http, "Backward Compatibility")
requests are independent: after a 4xx that is not a modern error the client tries
`initialize`, and after a 4xx to that, the transport of 2024-11-05. A 5xx status or a
network error is no evidence of the era; but a JSON-RPC error with status 500 is a
response of the server program, and leads to `initialize`, too.

`negotiate` is a generator: it yields `Send`, `Receive`, `Notify`, `Reopen` or
`Downgrade`, and receives the outcome by `send`. It has no clock; each outcome has its
time. A `Profile` has the consequences of the agreement for all later requests.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import attrs

from mcpwire.errors import (
    AuthError,
    HTTPError,
    InvalidMessage,
    LocalProtocolError,
    MCPError,
    NegotiationError,
    RPCError,
    TransportError,
    shorten,
)
from mcpwire.protocol.methods import (
    METHODS,
    Kind,
    available_method,
    declared_extensions,
    is_capability_declared,
    is_declared,
)
from mcpwire.types._base import (
    CLIENT_CAPABILITIES,
    CLIENT_INFO,
    LOG_LEVEL,
    PROTOCOL_VERSION,
    SERVER_INFO,
)
from mcpwire.versions import REVISIONS, Era, Revision, find_revision, revisions_of
from mcpwire.wire.json import Fragment, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

T = TypeVar("T")

MODES: Final = ("auto", "session", "stateless", "prefer-session")
"""The values of `mode=`, besides the names of revisions."""

MODERN_ERRORS: Final = frozenset({-32020, -32021, -32022})
"""Codes that exist only since 2026-07-28, so they prove the era."""

METHOD_NOT_FOUND: Final = -32601

REFUSING_STATUSES: Final = frozenset(range(400, 500)) - {401, 403, 407, 408, 425, 429}
"""Statuses that may mean that a server does not support the era."""

ENDPOINT_EVENT: Final = "'endpoint'"
"""The `got` of an error for an ``endpoint`` event, the first event of HTTP+SSE."""

MAX_TEXT_SHOWN: Final = 200


def _is_refusal(error: MCPError) -> bool:
    """Return whether an error of the handshake may mean another era.

    A lost connection does not, nor does an HTTP status of authorization, rate limits
    or temporary failures with any body; but a server that rejects a method has read the
    request.
    """
    if isinstance(error, RPCError):
        return (
            error.status is None
            or error.status in REFUSING_STATUSES
            or error.code == METHOD_NOT_FOUND
            or error.code in MODERN_ERRORS
        )
    if isinstance(error, HTTPError):
        return error.status in REFUSING_STATUSES
    return not isinstance(error, TransportError)


# Parameters


@attrs.frozen
class Identity:
    """Our name, version and capabilities."""

    info: Mapping[str, Any]
    """Our `Implementation` object."""

    capabilities: Mapping[str, Any] | Callable[[Revision], Mapping[str, Any]]
    """Our `ClientCapabilities` object, or a function that returns it for a revision."""

    def capabilities_at(self, revision: Revision) -> dict[str, Any]:
        """Return the capabilities that we declare in a revision."""
        declared = self.capabilities
        return dict(declared(revision) if callable(declared) else declared)


def parse_mode(mode: str) -> tuple[Revision, ...]:
    """Return the revisions of a mode: the era to try first, each era newest first."""
    if mode == "auto":
        return revisions_of(Era.STATELESS) + revisions_of(Era.SESSION)
    if mode == "prefer-session":
        return revisions_of(Era.SESSION) + revisions_of(Era.STATELESS)
    if mode in MODES:
        return revisions_of(Era(mode))
    revision = find_revision(mode)
    if revision is None:
        choices = ", ".join((*MODES, *map(str, REVISIONS)))
        raise ValueError(f"mode must be one of {choices}, got {mode!r}")
    return (revision,)


def request_meta(revision: Revision, identity: Identity) -> dict[str, Any]:
    """Return the `_meta` of every request of a stateless revision.

    2026-07-28 basic, "_meta": version and capabilities are required in every request,
    clientInfo is recommended.
    """
    return {
        PROTOCOL_VERSION: revision.name,
        CLIENT_CAPABILITIES: identity.capabilities_at(revision),
        CLIENT_INFO: dict(identity.info),
    }


# Steps


@attrs.frozen
class Send:
    """Send a request without waiting; `Receive` returns its response."""

    method: str
    params: dict[str, Any]


@attrs.frozen
class Receive:
    """Wait for the next `Answer`, or for `ReceiveTimeout` after `timeout` seconds."""

    timeout: float | None


@attrs.frozen
class Notify:
    """Send a notification in the agreed revision."""

    method: str
    revision: Revision


@attrs.frozen
class Reopen:
    """Open a new connection to the same target after the old one ended."""


@attrs.frozen
class Downgrade:
    """Open HTTP+SSE, the transport of 2024-11-05, to the same target instead.

    The outcome is ``None``, or the `MCPError` if that failed.
    """


@attrs.frozen
class Answer:
    """The result or error of a request, `at` seconds after the start.

    A `TransportError` means that there will be no response.
    """

    method: str
    outcome: dict[str, Any] | MCPError
    at: float


@attrs.frozen
class ReceiveTimeout:
    """The timeout of a `Receive`."""

    at: float


Step: TypeAlias = Send | Receive | Notify | Reopen | Downgrade

Steps: TypeAlias = "Generator[Step, Any, T]"

# Results


@attrs.frozen
class NegotiationStep:
    """An event of the handshake."""

    at: float
    """Seconds since the start of the handshake."""

    event: str
    """The event, such as ``sent server/discover`` or ``silence``."""

    detail: str = ""
    """Details, such as the supported revisions."""

    def __str__(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.at:.3f} s  {self.event}{detail}"


@attrs.define
class Negotiation:
    """The record of a handshake: its events in order, and the reason of its outcome."""

    steps: list[NegotiationStep] = attrs.field(factory=list)

    revision: Revision | None = None
    """The agreed revision; ``None`` without an agreement."""

    reason: str = ""
    """The reason of the outcome in one clause."""

    @property
    def era(self) -> Era | None:
        """The agreed era; ``None`` without an agreement."""
        return self.revision.era if self.revision is not None else None

    def note(self, at: float, event: str, detail: str = "") -> None:
        """Record an event."""
        self.steps.append(NegotiationStep(at, event, shorten(detail, MAX_TEXT_SHOWN)))

    def __str__(self) -> str:
        # The outcome, then the events, one per line.
        outcome = self.revision.name if self.revision is not None else "no agreement"
        lines = [f"{outcome}: {self.reason}" if self.reason else outcome]
        return "\n  ".join([*lines, *map(str, self.steps)])


@attrs.frozen(kw_only=True)
class Agreement:
    """The outcome of a successful handshake."""

    revision: Revision
    server_info: dict[str, Any] | None  # the server's `Implementation` object, if any
    capabilities: dict[str, Any]
    instructions: str | None
    raw: dict[str, Any]  # the InitializeResult or DiscoverResult, unchanged
    negotiation: Negotiation


DISCOVER: Final = "server/discover"
INITIALIZE: Final = "initialize"

MAX_NAMES_SHOWN: Final = 8


def negotiate(
    identity: Identity,
    allowed: tuple[Revision, ...],
    *,
    probe_timeout: float,
    record: Negotiation,
    over_http: bool = False,
) -> Steps[Agreement]:
    """Negotiate a revision with a server.

    `record` gets all events, also if the handshake fails. The era of the first revision
    in `allowed` is tried first. Over HTTP a lost connection is not reopened, and the
    HTTP+SSE transport may be tried.
    """
    if not allowed:  # for example, none is of an era that another client has cached
        raise NegotiationError("no revision may be spoken", negotiation=record)
    negotiator = _Negotiator(
        identity, allowed, probe_timeout, record, over_http=over_http
    )
    return (yield from negotiator.run())


class _Negotiator:
    """The state of one handshake."""

    def __init__(
        self,
        identity: Identity,
        allowed: tuple[Revision, ...],
        probe_timeout: float,
        record: Negotiation,
        *,
        over_http: bool,
    ) -> None:
        self.identity = identity
        self.modern = [r for r in allowed if r.era is Era.STATELESS]
        self.legacy = [r for r in allowed if r.era is Era.SESSION]
        self.prefers_session = allowed[0].era is Era.SESSION
        self.probe_timeout = probe_timeout
        self.record = record
        self.over_http = over_http
        self.open: set[str] = set()  # requests without a response
        self.retried: set[str] = set()
        self.proposed: Revision | None = None
        self.refusal: MCPError | None = None
        self.has_probed = False
        self.may_fall_back = bool(self.legacy)
        self.may_reopen = bool(self.modern and self.legacy and not over_http)
        self.may_downgrade = bool(self.legacy and over_http)
        self.now = 0.0

    def run(self) -> Steps[Agreement]:
        if self.prefers_session:
            yield self.initialize(self.legacy[0])
        else:
            yield self.probe(self.modern[0])
        while True:
            # Only a probe without a parallel `initialize` has a timeout.
            has_timeout = self.may_fall_back and self.open == {DISCOVER}
            outcome = yield Receive(self.probe_timeout if has_timeout else None)
            self.now = outcome.at
            if type(outcome) is ReceiveTimeout:
                self.note("silence", "initialize is sent beside the open probe")
                yield self.initialize(self.legacy[0])
                continue
            self.open.discard(outcome.method)
            agreement = yield from self.receive_answer(outcome)
            if agreement is not None:
                return agreement
            if not self.open and not (yield from self.downgrade()):
                raise self.failure()

    def note(self, event: str, detail: str = "") -> None:
        self.record.note(self.now, event, detail)

    def probe(self, revision: Revision) -> Send:
        self.note(f"sent {DISCOVER}", f"as {revision}")
        self.has_probed = True
        self.open.add(DISCOVER)
        return Send(DISCOVER, {"_meta": request_meta(revision, self.identity)})

    def initialize(self, revision: Revision) -> Send:
        # Only legacy revisions are proposed: modern ones have no handshake (2025-11-25
        # basic/lifecycle, "Version Negotiation").
        self.note(f"sent {INITIALIZE}", f"proposing {revision}")
        self.open.add(INITIALIZE)
        self.may_fall_back = False
        self.proposed = revision
        params = {
            "protocolVersion": revision.name,
            "capabilities": self.identity.capabilities_at(revision),
            "clientInfo": dict(self.identity.info),
        }
        return Send(INITIALIZE, params)

    # Responses

    def receive_answer(self, answer: Answer) -> Steps[Agreement | None]:
        method, outcome = answer.method, answer.outcome
        if isinstance(outcome, (AuthError, LocalProtocolError)):
            raise outcome  # no token, or nothing sent: not related to the era
        if isinstance(outcome, MCPError):
            yield from self.receive_error(method, outcome)
            return None
        try:
            if method == DISCOVER:
                return (yield from self.receive_discovery(outcome))
            return (yield from self.receive_initialized(outcome))
        except InvalidMessage as error:
            self.note(f"{method} was answered incorrectly", str(error))
            yield from self.receive_refusal(method, error)
            return None

    def receive_error(self, method: str, error: MCPError) -> Steps[None]:
        is_internal = isinstance(error, RPCError) and error.status == 500
        # Over HTTP, servers without `server/discover` may fail with an internal error.
        is_answer = is_internal and method == DISCOVER and self.may_fall_back
        if _is_refusal(error) or is_answer:
            self.note(f"{method} failed", str(error))
            yield from self.receive_refusal(method, error)
            return
        # The connection ended: some legacy servers crash on unknown requests. Over HTTP
        # that is no evidence of the era, nor is a status of a failure.
        is_lost = getattr(error, "status", None) is None
        self.note("the connection ended" if is_lost else f"{method} failed", str(error))
        if self.over_http and method == DISCOVER and INITIALIZE in self.open:
            return  # requests are independent: the response to `initialize` decides
        self.open.clear()
        if not self.may_reopen:
            # The HTTP error has the headers, for example a challenge.
            cause = error.__cause__ if isinstance(error, RPCError) else None
            raise cause if isinstance(cause, HTTPError) else error
        self.may_reopen = False
        yield Reopen()
        yield self.initialize(self.proposed or self.legacy[0])

    def receive_refusal(self, method: str, error: MCPError) -> Steps[None]:
        """Fall back after a refusal; a modern error code excludes the session era."""
        code = error.code if isinstance(error, RPCError) else None
        is_modern = code in MODERN_ERRORS
        if is_modern:
            self.refusal = error
            self.may_reopen = self.may_downgrade = False
            if method == INITIALIZE and DISCOVER in self.open:
                self.note("the server is modern", "waiting for its answer to the probe")
                return
            self.may_fall_back = False
        elif method == DISCOVER:
            self.refusal = self.refusal or error
            if self.may_fall_back:
                yield self.initialize(self.legacy[0])
            return
        else:
            self.refusal = error
            # 2026-07-28 streamable-http, "Protocol Version Header": a modern server,
            # which lacks `initialize`, returns this error.
            if code == METHOD_NOT_FOUND:
                self.may_downgrade = False
        yield from self.try_offered(error, is_modern=is_modern)

    def try_offered(self, error: MCPError, *, is_modern: bool) -> Steps[None]:
        """Try a revision in the data of an error, once per era.

        2025-11-25 basic/lifecycle, "Error Handling", has such an error. A modern server
        may name legacy revisions, too.
        """
        for revision in self.offered_revisions(error):
            if revision.era is Era.STATELESS:
                if is_modern and DISCOVER not in self.retried:
                    self.retried.add(DISCOVER)
                    yield self.probe(revision)
                    return
            elif (
                INITIALIZE not in self.open | self.retried and revision != self.proposed
            ):
                self.retried.add(INITIALIZE)
                yield self.initialize(revision)
                return
        if self.modern and not self.has_probed:
            yield self.probe(self.modern[0])

    def offered_revisions(self, error: MCPError) -> list[Revision]:
        """Return the allowed revisions in the data of an error, newest first."""
        names = _offered_names(error)
        return [r for r in (*self.modern, *self.legacy) if r.name in names]

    def downgrade(self) -> Steps[bool]:
        """Try the transport of 2024-11-05; return whether the handshake continues.

        2025-11-25 basic/transports, "Backwards Compatibility": after a 4xx to the POST
        of `initialize`; some HTTP+SSE servers respond to any HTTP method with their
        stream.
        """
        error = self.refusal
        status = getattr(error, "status", None)
        if isinstance(error, InvalidMessage) and error.got == ENDPOINT_EVENT:
            answered = "with an endpoint event"
        elif status is not None and 400 <= status < 500:
            answered = str(status)
        else:
            return False
        if not self.may_downgrade:
            return False
        self.may_downgrade = False
        self.note("trying HTTP+SSE", f"{INITIALIZE} was answered {answered}")
        failure = yield Downgrade()
        if failure is not None:
            self.note("HTTP+SSE failed", str(failure))
            return False
        self.note("HTTP+SSE is open", "the server named its endpoint")
        yield self.initialize(self.legacy[0])
        return True

    def receive_discovery(self, result: dict[str, Any]) -> Steps[Agreement | None]:
        if result.get("resultType", "complete") != "complete":
            raise _invalid_result("DiscoverResult", "resultType", "'complete'", result)
        names = result.get("supportedVersions")
        if type(names) is not list or not all(type(name) is str for name in names):
            raise _invalid_result(
                "DiscoverResult", "supportedVersions", "array of str", result
            )
        self.may_downgrade = False
        self.note(f"{DISCOVER} answered", f"supports {_join_names(names) or 'nothing'}")
        for revision in (*self.modern, *self.legacy):
            if revision.name not in names:
                continue
            if revision.era is Era.STATELESS:
                return self.agree(revision, result, "the server answered the probe")
            if INITIALIZE not in self.open:
                yield self.initialize(revision)
            return None
        raise self.disagreement(tuple(names))

    def receive_initialized(self, result: dict[str, Any]) -> Steps[Agreement]:
        name = result.get("protocolVersion")
        if type(name) is not str:
            raise _invalid_result("InitializeResult", "protocolVersion", "str", result)
        self.note(f"{INITIALIZE} answered", f"speaks {name}")
        revision = find_revision(name)
        if revision is not None and revision.era is Era.STATELESS:
            raise self.no_agreement(
                f"the server answered {INITIALIZE} with {name}, "
                "a revision that has no handshake",
                (name,),
            )
        # 2025-11-25 InitializeResult.protocolVersion: a client that does not support
        # the server's version MUST disconnect.
        if revision is None or revision not in self.legacy:
            raise self.disagreement((name,))
        agreement = self.agree(revision, result, "the server answered initialize")
        yield Notify("notifications/initialized", revision)
        return agreement

    # Outcome

    def agree(
        self, revision: Revision, result: dict[str, Any], reason: str
    ) -> Agreement:
        is_modern = revision.era is Era.STATELESS
        capabilities = result.get("capabilities")
        if capabilities is None:
            capabilities = {}  # absent and null mean no capabilities
        if type(capabilities) is not dict:
            kind = "DiscoverResult" if is_modern else "InitializeResult"
            raise _invalid_result(kind, "capabilities", "object", result)
        holder: Any = result
        key = "serverInfo"
        if is_modern:
            holder, key = result.get("_meta"), SERVER_INFO
        info = holder.get(key) if type(holder) is dict else None
        instructions = result.get("instructions")
        self.record.revision = revision
        self.record.reason = reason
        self.note("agreed", str(revision))
        return Agreement(
            revision=revision,
            server_info=info if type(info) is dict else None,
            capabilities=capabilities,
            instructions=instructions if type(instructions) is str else None,
            raw=result,
            negotiation=self.record,
        )

    def disagreement(self, names: tuple[str, ...]) -> NegotiationError:
        allowed = ", ".join(r.name for r in (*self.modern, *self.legacy))
        return self.no_agreement(
            f"no common revision: we allow {allowed}; "
            f"the server speaks {_join_names(names) or 'none'}",
            names,
        )

    def no_agreement(self, reason: str, names: tuple[str, ...]) -> NegotiationError:
        self.record.reason = "no common revision"
        return NegotiationError(reason, negotiation=self.record, supported=names)

    def failure(self) -> MCPError:
        error = self.refusal
        assert error is not None
        names = _offered_names(error)
        if names and not self.offered_revisions(error):
            return self.disagreement(names)
        self.record.reason = "the server refused"
        failure = NegotiationError(
            f"the server refused the handshake: {shorten(str(error), MAX_TEXT_SHOWN)}",
            negotiation=self.record,
            supported=names,
        )
        failure.__cause__ = error
        return failure


def _invalid_result(
    kind: str, member: str, expected: str, result: dict[str, Any]
) -> InvalidMessage:
    got = "nothing"
    if member in result:
        got = shorten(repr(result[member]), MAX_TEXT_SHOWN)
    return InvalidMessage(f"{kind}.{member}", expected=expected, got=got)


def _join_names(names: Sequence[str]) -> str:
    """Return the first names of a server's list, which may have any length."""
    shown = [shorten(name, 32) for name in names[:MAX_NAMES_SHOWN]]
    if len(names) > MAX_NAMES_SHOWN:
        shown.append(f"and {len(names) - MAX_NAMES_SHOWN} more")
    return ", ".join(shown)


def _offered_names(error: MCPError) -> tuple[str, ...]:
    """Return the supported revisions in the data of an error."""
    data = error.data if isinstance(error, RPCError) else None
    names = data.get("supported") if type(data) is dict else None
    if type(names) is not list:
        return ()
    return tuple(name for name in names if type(name) is str)


@attrs.frozen
class Profile:
    """The properties of all requests on a connection; empty before an agreement."""

    agreement: Agreement | None = None

    encoded_meta: Any = None
    """The encoded `_meta` of every request; ``None`` in a session."""

    meta: dict[str, Any] | None = None
    """The same `_meta` as a dict, to be merged with the `_meta` of a call."""

    disabled: Mapping[str, str] = attrs.field(factory=dict)
    """The disabled requests, with the capability or extension that is missing."""

    extensions: frozenset[str] = frozenset()
    """The extensions that both sides enabled (2026-07-28 basic/versioning)."""

    @classmethod
    def of(
        cls, agreement: Agreement, identity: Identity, *, log_level: str | None = None
    ) -> Profile:
        """Return the profile of an agreement, with the log level for all requests."""
        revision = agreement.revision
        fields = None
        if revision.era is Era.STATELESS:
            fields = request_meta(revision, identity)
            if log_level is not None:
                fields[LOG_LEVEL] = log_level
        extensions = declared_extensions(
            identity.capabilities_at(revision)
        ) & declared_extensions(agreement.capabilities)
        return cls(
            agreement,
            None if fields is None else Fragment(encode(fields)),
            fields,
            _disabled_methods(agreement, extensions),
            extensions,
        )

    @property
    def era(self) -> Era | None:
        """The agreed era; ``None`` before an agreement."""
        return self.agreement.revision.era if self.agreement is not None else None

    def offers(self, capability: str) -> bool:
        """Return whether the server declared a capability, such as ``logging``."""
        return self.agreement is not None and is_capability_declared(
            self.agreement.capabilities, capability
        )

    def refusal(self, method: str) -> LocalProtocolError:
        """Return the error for a request that is disabled on this connection.

        2025-11-25 basic/lifecycle, "Operation": use only negotiated capabilities.
        """
        return LocalProtocolError(
            f"{self.disabled[method]}, which {method} needs; "
            "`client.request` sends it all the same"
        )


def _disabled_methods(
    agreement: Agreement, extensions: frozenset[str]
) -> dict[str, str]:
    """Return the requests that lack their capability or extension, and the reasons."""
    revision, capabilities = agreement.revision, agreement.capabilities
    reasons = {}
    for spec in METHODS:
        if spec.kind is not Kind.REQUEST or "client" not in spec.senders:
            continue
        row = available_method(spec.name, revision, "client", extensions)
        if row is not None:
            if not is_declared(row, capabilities):
                reasons[spec.name] = f"the server did not declare {row.capability!r}"
        elif spec.extension is not None:
            reason = f"the server did not declare {spec.extension!r}"
            if revision < spec.since:
                reason = f"this connection speaks {revision}, not {spec.since}"
            elif spec.extension in declared_extensions(capabilities):
                reason = (
                    f"this client was made without the extension {spec.extension!r}"
                )
            reasons[spec.name] = reason
    return reasons

"""How a client finds the revision: one table of moves over what the peer answers.

2026-07-28 basic/versioning and basic/transports/stdio, "Backward Compatibility". The
probe is `server/discover`, for a legacy server may run `tools/call` without asking::

    PROBING ── modern answer ─────────────────────────► agreed, stateless
       │  └─── any other error, or the child exits ───► INITIALIZING
       └ silence ► BOTH ── modern answer, however late ► agreed, stateless
                    │ └─── InitializeResult ──────────► agreed, session
                    └ -32022 to `initialize` ─────────► PROBING, without fallback
    INITIALIZING ── InitializeResult ─────────────────► agreed, session

Where the session era is preferred, INITIALIZING comes first, and an error leads to
PROBING.

Silence decides nothing: a server that starts slowly locks its era at the first
`server/discover` it reads, so `initialize` is sent beside the open probe and the first
conclusive answer wins.

Over HTTP (2026-07-28 basic/transports/streamable-http, "Backward Compatibility") each
request stands alone: an answer of 4xx that is no modern error gives way to
`initialize`, and where that gets one too, to the transport of 2024-11-05. A status of
5xx and a network error say nothing of the era; but a JSON-RPC error beside 500 is an
answer of the server's program, and leads to `initialize` as well.

`negotiate` is a generator: it yields `Send`, `Receive`, `Notify`, `Reopen` or
`Downgrade`, and is sent the outcome. It knows no clock; each outcome has its time. A
`Profile` holds what the agreement means for every later request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

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
    available,
    capability_declared,
    declared_extensions,
    find,
    is_declared,
)
from mcpwire.versions import REVISIONS, Era, Revision, find_revision, revisions_of
from mcpwire.wire.json import Fragment, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Mapping, Sequence

__all__ = [
    "ENDPOINT_EVENT",
    "META",
    "METHOD_NOT_FOUND",
    "MODERN_ERRORS",
    "MODES",
    "Agreement",
    "Answer",
    "Downgrade",
    "Identity",
    "Negotiation",
    "NegotiationStep",
    "Notify",
    "Profile",
    "Receive",
    "Reopen",
    "Send",
    "Silence",
    "Step",
    "negotiate",
    "parse_mode",
    "request_meta",
]

META: Final = "io.modelcontextprotocol/"

MODES: Final = ("auto", "session", "stateless", "prefer-session")
"""`mode=` takes one of these, or the name of the one revision to speak."""

MODERN_ERRORS: Final = frozenset({-32020, -32021, -32022})
"""Codes that only revisions from 2026-07-28 on define, so they prove the era."""

METHOD_NOT_FOUND: Final = -32601

REFUSING_STATUSES: Final = frozenset(range(400, 500)) - {401, 403, 407, 408, 425, 429}
"""Statuses that may mean that a server does not know the era."""

ENDPOINT_EVENT: Final = "'endpoint'"
"""How an error tells that an event came with which HTTP+SSE begins."""

TEXT_SHOWN: Final = 200


def _is_refusal(error: MCPError) -> bool:
    """Tell whether an error of the handshake may mean that the era is another one.

    A lost connection does not, and over HTTP neither does a status of authorization, of
    rate limits or of temporary trouble, with any body; but a server that rejects a
    method has read the request.
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


# What it is given...


@attrs.frozen
class Identity:
    """Our name, version and capabilities."""

    info: Mapping[str, Any]
    """Our `Implementation` object."""

    capabilities: Mapping[str, Any] | Callable[[Revision], Mapping[str, Any]]
    """Our `ClientCapabilities` object, or what makes it for a revision."""

    def capabilities_at(self, revision: Revision) -> dict[str, Any]:
        """Return what we declare where that revision is spoken."""
        declared = self.capabilities
        return dict(declared(revision) if callable(declared) else declared)


def parse_mode(mode: str) -> tuple[Revision, ...]:
    """Return the revisions a mode allows: the era to try first, then newest first."""
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
    """Return the `_meta` that every request of a stateless revision carries.

    2026-07-28 basic, "_meta": version and capabilities on every request, clientInfo
    where nothing speaks against it.
    """
    return {
        META + "protocolVersion": revision.name,
        META + "clientCapabilities": identity.capabilities_at(revision),
        META + "clientInfo": dict(identity.info),
    }


# Steps...


@attrs.frozen
class Send:
    """Send a request and go on; its answer comes by `Receive`."""

    method: str
    params: dict[str, Any]


@attrs.frozen
class Receive:
    """Wait for the next `Answer`, or for `Silence` of so many seconds."""

    patience: float | None


@attrs.frozen
class Notify:
    """Send a notification; the revision is agreed by then."""

    method: str
    revision: Revision


@attrs.frozen
class Reopen:
    """Open a new connection to the same target in place of the one that ended."""

    reason: str


@attrs.frozen
class Downgrade:
    """Open HTTP+SSE, the transport of 2024-11-05, to the same target instead.

    The outcome is ``None``, or the `MCPError` that says why that is not to be had.
    """

    reason: str


@attrs.frozen
class Answer:
    """A request got its result or its error, so many seconds after the beginning.

    A `TransportError` means that no answer will come.
    """

    method: str
    outcome: dict[str, Any] | MCPError
    at: float


@attrs.frozen
class Silence:
    """Nothing came in time."""

    at: float


Step: TypeAlias = Send | Receive | Notify | Reopen | Downgrade

Negotiating: TypeAlias = "Generator[Step, Any, Agreement]"

# What it agreed on...


@attrs.frozen
class NegotiationStep:
    """One thing that happened during the handshake."""

    at: float
    """Seconds since its start."""

    event: str
    """What happened, such as ``sent server/discover`` or ``silence``."""

    detail: str = ""
    """What was learnt from it."""

    def __str__(self) -> str:
        detail = f": {self.detail}" if self.detail else ""
        return f"{self.at:.3f} s  {self.event}{detail}"


@attrs.define
class Negotiation:
    """The ordered record of probes and answers, and the reason of the verdict."""

    steps: list[NegotiationStep] = attrs.field(factory=list)

    revision: Revision | None = None
    """The agreed revision; ``None`` where there was no agreement."""

    reason: str = ""
    """Why that revision, in one clause."""

    @property
    def era(self) -> Era | None:
        """How the connection keeps its state."""
        return self.revision.era if self.revision is not None else None

    def note(self, at: float, event: str, detail: str = "") -> None:
        """Add a step."""
        self.steps.append(NegotiationStep(at, event, shorten(detail, TEXT_SHOWN)))

    def __str__(self) -> str:
        # The verdict and the steps that led to it, a line each.
        verdict = self.revision.name if self.revision is not None else "no agreement"
        lines = [f"{verdict}: {self.reason}" if self.reason else verdict]
        return "\n  ".join([*lines, *map(str, self.steps)])


@attrs.frozen(kw_only=True)
class Agreement:
    """What a handshake agreed on."""

    revision: Revision
    server_info: dict[str, Any] | None  # its `Implementation` object, if it gave one
    capabilities: dict[str, Any]
    instructions: str | None
    raw: dict[str, Any]  # the InitializeResult or DiscoverResult as it came
    negotiation: Negotiation


DISCOVER: Final = "server/discover"
INITIALIZE: Final = "initialize"

NAMES_SHOWN: Final = 8


def negotiate(
    identity: Identity,
    allowed: tuple[Revision, ...],
    *,
    probe_timeout: float,
    record: Negotiation | None = None,
    over_http: bool = False,
) -> Negotiating:
    """Agree on a revision with a server.

    What happens is noted in `record`, which outlives a failure. The era of the first
    revision in `allowed` is tried first. Over HTTP a connection that ends is not opened
    anew, and an older transport may be tried.
    """
    record = record if record is not None else Negotiation()
    if not allowed:  # such as of an era that another client has remembered
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
        self.steps: list[Step] = []  # to perform before the next answer
        self.open: set[str] = set()  # requests without an answer
        self.retried: set[str] = set()
        self.proposed: Revision | None = None
        self.refusal: MCPError | None = None
        self.has_probed = False
        self.may_fall_back = bool(self.legacy)
        self.may_reopen = bool(self.modern and self.legacy and not over_http)
        self.may_downgrade = bool(self.legacy and over_http)
        self.now = 0.0

    def run(self) -> Negotiating:
        if self.prefers_session:
            self.initialize(self.legacy[0])
        else:
            self.probe(self.modern[0])
        while True:
            yield from self.perform()
            # Only an unanswered probe with nothing beside it ends in silence.
            is_alone = self.may_fall_back and self.open == {DISCOVER}
            outcome = yield Receive(self.probe_timeout if is_alone else None)
            self.now = outcome.at
            if type(outcome) is Silence:
                self.note("silence", "initialize is sent beside the open probe")
                self.initialize(self.legacy[0])
                continue
            assert type(outcome) is Answer
            self.open.discard(outcome.method)
            agreement = self.take(outcome)
            yield from self.perform()
            if agreement is not None:
                return agreement
            if not self.open and not (yield from self.downgrade()):
                raise self.failure()

    def perform(self) -> Generator[Step, Any, None]:
        while self.steps:
            yield self.steps.pop(0)

    def note(self, event: str, detail: str = "") -> None:
        self.record.note(self.now, event, detail)

    def probe(self, revision: Revision) -> None:
        self.note(f"sent {DISCOVER}", f"as {revision}")
        self.has_probed = True
        self.open.add(DISCOVER)
        meta = request_meta(revision, self.identity)
        self.steps.append(Send(DISCOVER, {"_meta": meta}))

    def initialize(self, revision: Revision) -> None:
        # Only a legacy revision is ever proposed: there is no handshake form of a
        # modern one (2025-11-25 basic/lifecycle, "Version Negotiation").
        self.note(f"sent {INITIALIZE}", f"proposing {revision}")
        self.open.add(INITIALIZE)
        self.may_fall_back = False
        self.proposed = revision
        params = {
            "protocolVersion": revision.name,
            "capabilities": self.identity.capabilities_at(revision),
            "clientInfo": dict(self.identity.info),
        }
        self.steps.append(Send(INITIALIZE, params))

    # One answer...

    def take(self, answer: Answer) -> Agreement | None:
        method, outcome = answer.method, answer.outcome
        if isinstance(outcome, (AuthError, LocalProtocolError)):
            raise outcome  # no token, or nothing was written: that tells of no era
        if isinstance(outcome, MCPError):
            self.take_error(method, outcome)
            return None
        try:
            if method == DISCOVER:
                return self.take_discovery(outcome)
            return self.take_initialized(outcome)
        except InvalidMessage as error:
            self.note(f"{method} answered against the rules", str(error))
            self.take_refusal(method, error)
            return None

    def take_error(self, method: str, error: MCPError) -> None:
        is_internal = isinstance(error, RPCError) and error.status == 500
        # Over HTTP servers that do not know the probe may fail at it.
        is_answer = is_internal and method == DISCOVER and self.may_fall_back
        if _is_refusal(error) or is_answer:
            self.note(f"{method} failed", str(error))
            self.take_refusal(method, error)
            return
        # The connection ended: some legacy servers crash on what they do not know. Over
        # HTTP that says nothing of the era, and neither does a status of trouble.
        is_lost = getattr(error, "status", None) is None
        self.note("the connection ended" if is_lost else f"{method} failed", str(error))
        if self.over_http and method == DISCOVER and INITIALIZE in self.open:
            return  # each request stands alone: the one beside it decides
        self.open.clear()
        if not self.may_reopen:
            # What a JSON-RPC error came with has the headers: a challenge, say.
            cause = error.__cause__ if isinstance(error, RPCError) else None
            raise cause if isinstance(cause, HTTPError) else error
        self.may_reopen = False
        self.steps.append(Reopen("the connection ended during the handshake"))
        self.initialize(self.proposed or self.legacy[0])

    def take_refusal(self, method: str, error: MCPError) -> None:
        """After a refusal the probe gives way; a modern code rules out a session."""
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
                self.initialize(self.legacy[0])
            return
        else:
            self.refusal = error
            # 2026-07-28 streamable-http, "Protocol Version Header": that is how a
            # server answers there that has no such method any more.
            if code == METHOD_NOT_FOUND:
                self.may_downgrade = False
        self.try_named(error, is_modern=is_modern)

    def try_named(self, error: MCPError, *, is_modern: bool) -> None:
        """Try a revision that an error's data names, each way of speaking once.

        2025-11-25 basic/lifecycle, "Error Handling", shows such an error. A modern
        server may name legacy revisions too.
        """
        for revision in self.named(error):
            if revision.era is Era.STATELESS:
                if is_modern and DISCOVER not in self.retried:
                    self.retried.add(DISCOVER)
                    self.probe(revision)
                    return
            elif (
                INITIALIZE not in self.open | self.retried and revision != self.proposed
            ):
                self.retried.add(INITIALIZE)
                self.initialize(revision)
                return
        if self.modern and not self.has_probed:
            self.probe(self.modern[0])

    def named(self, error: MCPError) -> list[Revision]:
        """Return the revisions we allow that an error's data names, newest first."""
        names = _supported(error)
        return [r for r in (*self.modern, *self.legacy) if r.name in names]

    def downgrade(self) -> Generator[Step, Any, bool]:
        """Try the transport of 2024-11-05; tell whether the handshake goes on there.

        2025-11-25 basic/transports, "Backwards Compatibility": where the POST of
        `initialize` got an error of 4xx; some of its servers answer any method with
        their stream.
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
        reason = f"{INITIALIZE} was answered {answered}"
        self.note("trying HTTP+SSE", reason)
        failure = yield Downgrade(reason)
        if failure is not None:
            self.note("HTTP+SSE failed", str(failure))
            return False
        self.note("HTTP+SSE is open", "the server named its endpoint")
        self.initialize(self.legacy[0])
        return True

    def take_discovery(self, result: dict[str, Any]) -> Agreement | None:
        if result.get("resultType", "complete") != "complete":
            raise _invalid("DiscoverResult", "resultType", "'complete'", result)
        names = result.get("supportedVersions")
        if type(names) is not list or not all(type(name) is str for name in names):
            raise _invalid(
                "DiscoverResult", "supportedVersions", "array of str", result
            )
        self.may_downgrade = False
        self.note(f"{DISCOVER} answered", f"supports {_list(names) or 'nothing'}")
        for revision in (*self.modern, *self.legacy):
            if revision.name not in names:
                continue
            if revision.era is Era.STATELESS:
                return self.agree(revision, result, "the server answered the probe")
            if INITIALIZE not in self.open:
                self.initialize(revision)
            return None
        raise self.disagreement(tuple(names))

    def take_initialized(self, result: dict[str, Any]) -> Agreement:
        name = result.get("protocolVersion")
        if type(name) is not str:
            raise _invalid("InitializeResult", "protocolVersion", "str", result)
        self.note(f"{INITIALIZE} answered", f"speaks {name}")
        revision = find_revision(name)
        if revision is not None and revision.era is Era.STATELESS:
            raise self.no_agreement(
                f"the server answered {INITIALIZE} with {name}, "
                "a revision that has no handshake",
                (name,),
            )
        # 2025-11-25 InitializeResult.protocolVersion: a client that cannot speak the
        # version it is answered MUST disconnect.
        if revision is None or revision not in self.legacy:
            raise self.disagreement((name,))
        agreement = self.agree(revision, result, "the server answered initialize")
        self.steps.append(Notify("notifications/initialized", revision))
        return agreement

    # The verdict...

    def agree(
        self, revision: Revision, result: dict[str, Any], reason: str
    ) -> Agreement:
        is_modern = revision.era is Era.STATELESS
        capabilities = result.get("capabilities")
        if capabilities is None:
            capabilities = {}  # absent and null mean that it offers nothing
        if type(capabilities) is not dict:
            kind = "DiscoverResult" if is_modern else "InitializeResult"
            raise _invalid(kind, "capabilities", "object", result)
        holder: Any = result
        key = "serverInfo"
        if is_modern:
            holder, key = result.get("_meta"), META + "serverInfo"
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
        ours = ", ".join(r.name for r in (*self.modern, *self.legacy))
        return self.no_agreement(
            f"no common revision: we allow {ours}; "
            f"the server speaks {_list(names) or 'none'}",
            names,
        )

    def no_agreement(self, why: str, names: tuple[str, ...]) -> NegotiationError:
        self.record.reason = "no common revision"
        return NegotiationError(why, negotiation=self.record, supported=names)

    def failure(self) -> MCPError:
        error = self.refusal
        assert error is not None
        names = _supported(error)
        if names and not self.named(error):
            return self.disagreement(names)
        self.record.reason = "the server refused"
        failure = NegotiationError(
            f"the server refused the handshake: {shorten(str(error), TEXT_SHOWN)}",
            negotiation=self.record,
            supported=names,
        )
        failure.__cause__ = error
        return failure


def _invalid(
    kind: str, member: str, expected: str, result: dict[str, Any]
) -> InvalidMessage:
    got = "nothing"
    if member in result:
        got = shorten(repr(result[member]), TEXT_SHOWN)
    return InvalidMessage(f"{kind}.{member}", expected=expected, got=got)


def _list(names: Sequence[str]) -> str:
    """Return the first of the names a server gave; it may give any number."""
    shown = [shorten(name, 32) for name in names[:NAMES_SHOWN]]
    if len(names) > NAMES_SHOWN:
        shown.append(f"and {len(names) - NAMES_SHOWN} more")
    return ", ".join(shown)


def _supported(error: MCPError) -> tuple[str, ...]:
    """Return the revisions an error's data says the server supports."""
    data = error.data if isinstance(error, RPCError) else None
    names = data.get("supported") if type(data) is dict else None
    if type(names) is not list:
        return ()
    return tuple(name for name in names if type(name) is str)


LOG_LEVEL: Final = META + "logLevel"


@attrs.frozen
class Profile:
    """How requests are made on a connection; before an agreement it is empty."""

    agreement: Agreement | None = None

    stamp: Any = None
    """The `_meta` of every request, ready to send; ``None`` in a session."""

    stamp_fields: dict[str, Any] | None = None
    """The same as a dict, to be merged with a call's own."""

    refused: frozenset[str] = frozenset()
    """Requests that are off: capability not declared, or extension not on."""

    extensions: frozenset[str] = frozenset()
    """The extensions that both sides have on (2026-07-28 basic/versioning)."""

    @classmethod
    def of(
        cls, agreement: Agreement, identity: Identity, *, log_level: str | None = None
    ) -> Profile:
        """Compose the profile of an agreement; requests may ask for a log level."""
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
            _refused(agreement, extensions),
            extensions,
        )

    @property
    def era(self) -> Era | None:
        """The agreed era; ``None`` before an agreement."""
        return self.agreement.revision.era if self.agreement is not None else None

    def offers(self, capability: str) -> bool:
        """Tell whether the server declared a capability, such as ``logging``."""
        return self.agreement is not None and capability_declared(
            self.agreement.capabilities, capability
        )

    def refusal(self, method: str) -> LocalProtocolError:
        """Build the error for a request that is off on this connection.

        2025-11-25 basic/lifecycle, "Operation": only what was negotiated is used.
        """
        assert self.agreement is not None
        spec = available(method, self.agreement.revision, "client", self.extensions)
        if spec is not None:
            reason = f"the server did not declare {spec.capability!r}"
        else:
            reason = _why_off(method, self.agreement)
        return LocalProtocolError(
            f"{reason}, which {method} needs; `client.request` sends it all the same"
        )


def _refused(agreement: Agreement, extensions: frozenset[str]) -> frozenset[str]:
    """Return the requests that lack their capability or extension."""
    refused = set()
    for spec in METHODS:
        if spec.kind is Kind.REQUEST and "client" in spec.senders:
            row = available(spec.name, agreement.revision, "client", extensions)
            if row is None:
                is_off = spec.extension is not None
            else:
                is_off = not is_declared(row, agreement.capabilities)
            if is_off:
                refused.add(spec.name)
    return frozenset(refused)


def _why_off(method: str, agreement: Agreement) -> str:
    spec = find(method)
    assert spec is not None
    if agreement.revision < spec.since:
        return f"this connection speaks {agreement.revision}, not {spec.since}"
    if spec.extension in declared_extensions(agreement.capabilities):
        return f"this client was made without the extension {spec.extension!r}"
    return f"the server did not declare {spec.extension!r}"

"""Model of a conformance case: rule, level, verdicts and findings.

A case checks one rule on one connection. Its function uses a `Subject` and raises a
`Finding` when the server breaks the rule; a normal return means that the case made an
observation and that the rule holds.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from mcpwire.versions import REVISIONS, Era

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

Transport: TypeAlias = Literal["stdio", "http", "sse"]
"""`sse`: HTTP with server-sent events, the transport of revision 2024-11-05."""
CaseFunction: TypeAlias = "Callable[[Any], Awaitable[None]]"
"""Takes a `Subject`, or for a client a `ClientSubject`."""

ALL: Final = tuple(revision.name for revision in REVISIONS)
LEGACY: Final = tuple(r.name for r in REVISIONS if r.era is Era.SESSION)
MODERN: Final = tuple(r.name for r in REVISIONS if r.era is Era.STATELESS)


def since(first: str, last: str = ALL[-1]) -> tuple[str, ...]:
    """Return the names of the revisions from `first` to `last`, both included."""
    return ALL[ALL.index(first) : ALL.index(last) + 1]


class Level(Enum):
    """Requirement level of a rule."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    ROBUST = "ROBUST"
    """Behaviour of a robust implementation; no rule of the specification."""


class Verdict(Enum):
    """Outcome of a case."""

    PASS = "pass"  # noqa: S105 - no password
    LENIENT = "lenient"
    """The server accepts, without harm, input that it must refuse."""
    WARN = "warn"
    """The server breaks a SHOULD or a robustness rule."""
    FAIL = "fail"
    CRASH = "crash"
    """The server process ended, or the server refuses connections."""
    HANG = "hang"
    """The server did not answer within the time limit."""
    ABSENT = "absent"
    """The server does not declare the feature under test; not counted."""
    UNRUN = "unrun"
    """The case made no observation; counted as not passed."""


class Start(Enum):
    """Connection that a case runs on."""

    SHARED = "shared"
    """A connection that other cases use before and after this case."""
    OWN = "own"
    """A connection of its own, after the handshake."""
    RAW = "raw"
    """A connection of its own, without a handshake."""
    LAST = "last"
    """The shared connection, after all other cases have run."""


class Finding(Exception):
    """Exception that ends a case with a verdict other than `pass`."""

    def __init__(self, expected: str, actual: str = "") -> None:
        super().__init__(expected, actual)
        self.expected = expected
        self.actual = actual


class Broken(Finding):
    """The server breaks the rule: `fail` for a MUST, else `warn`."""


class Lenient(Finding):
    """The server accepts, without harm, input that it must refuse."""


class Absent(Finding):
    """The server lacks the feature under test."""


class NoAnswer(Finding):
    """The server did not answer a request within the time limit."""


class EndedWithoutAnswer(NoAnswer):
    """The HTTP response ended without an answer to the request."""


class Unobserved(Finding):
    """The client did not do what the case observes."""


class PeerDied(Finding):
    """The server process ended, or the server refuses connections."""


@attrs.frozen(kw_only=True, eq=False)
class Case:
    """One rule and the test for it."""

    id: str
    """The rule's id in the digest of the specification, a dot and a letter or word."""
    family: str
    level: Level
    title: str
    """The rule in one sentence."""
    sends: str
    expects: str
    why: str
    """Consequence for a user when a server breaks the rule."""
    run: CaseFunction
    role: Literal["server", "client"] = "server"
    """Which side the case tests."""
    source: str = ""
    """Place of the rule in the specification, without revision; "" for `ROBUST`."""
    rules: tuple[str, ...] = ()
    revisions: tuple[str, ...] = ALL
    transports: tuple[Transport, ...] = ("stdio", "http")
    """A case for both stdio and HTTP also runs over `sse`."""
    needs: tuple[str, ...] = ()
    """Features that the server must have: a capability (``resources.subscribe``), an
    extension (``extension:tasks``), a role (``role:echo``), a token (``token:good``),
    or a listed item (``tool:``, ``call:`` for a callable tool, ``resource:``,
    ``template:``, ``prompt:``)."""
    start: Start = Start.SHARED
    follows: str = ""
    """The id of a `RAW` case. After that case has passed, this case reuses its process,
    which saves the start of another one."""
    capabilities: dict[str, Any] | None = None
    """Declared client capabilities; only for a connection of the case's own."""
    is_quick: bool = True
    is_once: bool = False
    """Whether the case runs in one revision only, the newest of its own that the server
    supports: it tests octets or the process, which no revision changes."""
    is_hostile: bool = False
    """Whether the case floods or exhausts the server: only with ``--hostile``."""
    profile: str = "2026.1"
    """The first profile that contains the case."""
    bound_s: float = 20.0
    """Time limit of the whole case in seconds, excluding process starts."""


_AUTHORIZATION: Final = {
    "authorization-server-discovery": (
        "authorization-server-location",
        "authorization-server-metadata-discovery",
        "protected-resource-metadata-discovery-requirements",
    ),
    "client-registration": (
        "application-type-and-redirect-uri-constraints",
        "authorization-server-binding",
        "client-id-metadata-documents",
        "implementation-requirements",
    ),
    "security-considerations": (
        "authorization-code-protection",
        "communication-security",
        "open-redirection",
    ),
}
"""Page of the newest revision -> its sections that one page had before."""
_MOVED: Final = (
    *(
        (MODERN, f"basic/authorization#{name}", f"basic/authorization/{page}#{name}")
        for page, names in _AUTHORIZATION.items()
        for name in names
    ),
    (MODERN, "basic/utilities/", "basic/patterns/"),
    (MODERN, "basic/transports#stdio", "basic/transports/stdio"),
    (
        MODERN,
        "basic/transports#sending-messages-to-the-server",
        "basic/transports/streamable-http#sending-messages",
    ),
    (MODERN, "basic/transports#security-warning", "basic/transports/streamable-http"),
    (
        ALL[2:3],
        "#protected-resource-metadata-discovery-requirements",
        "#authorization-server-location",
    ),
    (ALL[:3], "basic/index#result-responses", "basic/index#responses"),
    (ALL[:3], "basic/index#error-responses", "basic/index#responses"),
    (ALL[:1], "basic/index#messages", "basic/messages"),
    (ALL[:1], "basic/index#", "basic/messages#"),
)
"""Revisions, a place in the others, and the place in these."""


def cite(source: str, revision: str) -> str:
    """Return a place of the specification in a revision, with the revision.

    A place that begins with a revision stays, as its rule holds for several.
    """
    if not source or source[0].isdigit():
        return source
    for revisions, usual, place in _MOVED:
        if revision in revisions:
            source = source.replace(usual, place)
    return f"{revision} {source}"


@attrs.define
class Family:
    """Cases of one area; `must`, `should` and `robust` return decorators for them."""

    name: str
    cases: list[Case] = attrs.field(factory=list)
    defaults: dict[str, Any] = attrs.field(factory=dict)
    """Default attributes of the family's cases."""

    def with_defaults(self, **defaults: Any) -> Family:
        """Return this family with further default attributes for its cases."""
        return Family(self.name, self.cases, {**self.defaults, **defaults})

    def must(
        self, id: str, title: str, **attributes: Any
    ) -> Callable[[CaseFunction], CaseFunction]:
        """Return a decorator that adds a case of level MUST."""
        return self.case(id, Level.MUST, title, **attributes)

    def should(
        self, id: str, title: str, **attributes: Any
    ) -> Callable[[CaseFunction], CaseFunction]:
        """Return a decorator that adds a case of level SHOULD."""
        return self.case(id, Level.SHOULD, title, **attributes)

    def robust(
        self, id: str, title: str, **attributes: Any
    ) -> Callable[[CaseFunction], CaseFunction]:
        """Return a decorator that adds a case of level ROBUST."""
        return self.case(id, Level.ROBUST, title, **attributes)

    def case(
        self, id: str, level: Level, title: str, **attributes: Any
    ) -> Callable[[CaseFunction], CaseFunction]:
        """Return a decorator that adds a coroutine function as a case."""

        def add(run: CaseFunction) -> CaseFunction:
            required = {"id": id, "level": level, "title": title, "run": run}
            self.cases.append(
                Case(family=self.name, **{**self.defaults, **attributes, **required})
            )
            return run

        return add

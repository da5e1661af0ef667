"""What a case is, and what running it can say.

A case holds one rule against one connection. Its function speaks through a `Subject`
and raises a `Finding` where the rule is broken; returning means that the rule holds and
that something was observed.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import attrs

from mcpwire.versions import REVISIONS, Era

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from mcpwire.check.subject import Subject

__all__ = [
    "LEGACY",
    "MODERN",
    "Absent",
    "Broken",
    "Case",
    "Family",
    "Finding",
    "Lenient",
    "Level",
    "NoAnswer",
    "NotAnswered",
    "PeerDied",
    "Start",
    "Transport",
    "Verdict",
    "since",
]

Transport: TypeAlias = Literal["stdio", "http", "sse"]
"""`sse`: HTTP with server-sent events, the transport of 2024-11-05."""
Run: TypeAlias = "Callable[[Subject], Awaitable[None]]"

ALL: Final = tuple(revision.name for revision in REVISIONS)
LEGACY: Final = tuple(r.name for r in REVISIONS if r.era is Era.SESSION)
MODERN: Final = tuple(r.name for r in REVISIONS if r.era is Era.STATELESS)


def since(first: str, last: str = ALL[-1]) -> tuple[str, ...]:
    """Return the names of the revisions from one to another, both included."""
    return ALL[ALL.index(first) : ALL.index(last) + 1]


class Level(Enum):
    """How binding a case's rule is."""

    MUST = "MUST"
    SHOULD = "SHOULD"
    ROBUST = "ROBUST"
    """No sentence of the specification: what a robust implementation does."""


class Verdict(Enum):
    """What a case found."""

    PASS = "pass"  # noqa: S105 - no password
    LENIENT = "lenient"
    """The subject took, without harm, what it must refuse."""
    WARN = "warn"
    """It breaks a rule that is no MUST."""
    FAIL = "fail"
    CRASH = "crash"
    """Its process ended, or it takes no connection any more."""
    HANG = "hang"
    """It did not answer within the bound."""
    ABSENT = "absent"
    """It does not declare what the case is about: not counted."""
    UNRUN = "unrun"
    """Nothing was observed: counted against the subject."""


class Start(Enum):
    """What connection a case gets."""

    SHARED = "shared"
    """One that other cases use before and after it."""
    OWN = "own"
    """One of its own, after the handshake."""
    RAW = "raw"
    """One of its own, without a handshake."""
    LAST = "last"
    """The shared one, when all other cases have run."""


class Finding(Exception):
    """Ends a case with another verdict than pass."""

    def __init__(self, expected: str, actual: str = "") -> None:
        super().__init__(expected, actual)
        self.expected = expected
        self.actual = actual


class Broken(Finding):
    """The rule is broken: `fail` for a MUST, else `warn`."""


class Lenient(Finding):
    """The subject took, without harm, what it must refuse."""


class Absent(Finding):
    """The subject lacks what the case is about."""


class NoAnswer(Finding):
    """A request that must be answered was not, within the bound."""


class NotAnswered(NoAnswer):
    """It was not, and nothing more can come: the HTTP response is over."""


class PeerDied(Finding):
    """The subject's process ended, or it refuses connections."""


@attrs.frozen(kw_only=True, eq=False)
class Case:
    """One rule, and how it is observed."""

    id: str
    """The rule's id in the digest of the specification, a dot and a letter or word."""
    family: str
    level: Level
    title: str
    """The rule in one sentence."""
    sends: str
    expects: str
    why: str
    """What a user suffers where the rule is broken."""
    run: Run
    source: str = ""
    """Where the specification says so, without the revision; "" for `ROBUST`."""
    rules: tuple[str, ...] = ()
    revisions: tuple[str, ...] = ALL
    transports: tuple[Transport, ...] = ("stdio", "http")
    """A case of both runs over `sse` too."""
    needs: tuple[str, ...] = ()
    """What the server must have: a capability (``resources.subscribe``), an extension
    (``extension:tasks``), a role (``role:echo``), a token (``token:good``), or anything
    listed (``tool:``, ``call:`` for one that may be called, ``resource:``,
    ``template:``, ``prompt:``)."""
    start: Start = Start.SHARED
    follows: str = ""
    """The id of a case with a process without a handshake. Where that one has passed,
    this one goes on with its process, which saves a start."""
    capabilities: dict[str, Any] | None = None
    """What the client declares; only with a connection of its own."""
    is_quick: bool = True
    is_once: bool = False
    """Whether one revision shows it, the newest of its own that the server speaks: it
    is about octets or the process, which no revision alters."""
    is_hostile: bool = False
    """Whether it floods or exhausts: only with ``--hostile``."""
    profile: str = "2026.1"
    """The first profile that has it."""
    bound_s: float = 20.0
    """How long the whole case may take, without the starts of processes."""


@attrs.define
class Family:
    """The cases of one subject; `must` and the like return decorators that add one."""

    name: str
    cases: list[Case] = attrs.field(factory=list)
    facts: dict[str, Any] = attrs.field(factory=dict)
    """Attributes of its cases, unless a case gives its own."""

    def where(self, **facts: Any) -> Family:
        """Return this family with attributes that several cases have in common."""
        return Family(self.name, self.cases, {**self.facts, **facts})

    def must(self, id: str, title: str, **facts: Any) -> Callable[[Run], Run]:
        """Return a decorator that adds a case for a MUST."""
        return self.case(id, Level.MUST, title, **facts)

    def should(self, id: str, title: str, **facts: Any) -> Callable[[Run], Run]:
        """Return a decorator that adds a case for a SHOULD."""
        return self.case(id, Level.SHOULD, title, **facts)

    def robust(self, id: str, title: str, **facts: Any) -> Callable[[Run], Run]:
        """Return a decorator that adds a case for robustness."""
        return self.case(id, Level.ROBUST, title, **facts)

    def case(
        self, id: str, level: Level, title: str, **facts: Any
    ) -> Callable[[Run], Run]:
        """Return a decorator that adds a coroutine function as a case."""

        def add(run: Run) -> Run:
            own = {"id": id, "level": level, "title": title, "run": run}
            self.cases.append(Case(family=self.name, **{**self.facts, **facts, **own}))
            return run

        return add

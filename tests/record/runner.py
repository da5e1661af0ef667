"""Runs cases written once with both clients, over each wire, against `peer`."""

import asyncio
import contextlib
import json
import queue
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import mcpwire
import mcpwire.sync
from record import peer, shown, web

HERE: Final = Path(__file__).parent
ERAS: Final = {"session": peer.SESSION, "stateless": peer.STATELESS, "sse": peer.OLDEST}
GROUPS: Final = tuple(
    f"{client}-{wire}-{era}"
    for client in ("asyncio", "sync")
    for wire in ("stdio", "http", "memory")
    for era in ERAS
    if era != "sse" or wire == "http"
)
"""Client, transport and era: one file of the record each."""

BOUND_S: Final = 60.0
STREAMS: Final = frozenset(
    {
        *("EventStream", "Subscription", "ResourceWatch", "PendingCall", "LoadedSkill"),
        *("Client", "Group", "GroupEvents", "ToolSet"),
    }
)


class Blocking:
    """A blocking object wrapped as an asyncio one whose coroutines never suspend."""

    def __init__(self, thing: Any) -> None:
        self.thing = thing

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.thing, "close" if name == "aclose" else name)
        if not callable(found):
            return found
        return lambda *args, **options: Answer(found, args, options)

    def __getitem__(self, name: str) -> Any:
        return Blocking(self.thing[name])

    def __await__(self) -> Any:
        return self.thing.result()
        yield

    async def __aenter__(self) -> Any:
        self.thing.__enter__()
        return self

    async def __aexit__(self, *raised: object) -> None:
        self.thing.__exit__(*raised)

    def __aiter__(self) -> Any:
        return Blocking(iter(self.thing))

    async def __anext__(self) -> Any:
        for item in self.thing:
            return item
        raise StopAsyncIteration


class Answer(Blocking):
    """The outcome of a call of a blocking method, usable directly or by await."""

    def __init__(self, method: Any, args: Any, options: Any) -> None:
        self.raised: BaseException | None = None
        try:
            super().__init__(method(*args, **options))
        except Exception as error:  # noqa: BLE001 - raised when it is awaited
            super().__init__(None)
            self.raised = error

    def __await__(self) -> Any:
        if self.raised is not None:
            raise self.raised
        return (
            Blocking(self.thing) if type(self.thing).__name__ in STREAMS else self.thing
        )
        yield

    async def __aenter__(self) -> Any:
        if self.raised is not None:
            raise self.raised
        return await super().__aenter__()

    async def __anext__(self) -> Any:
        if self.raised is not None:
            raise self.raised
        return await super().__anext__()

    def __aiter__(self) -> Any:
        return self if self.raised is not None else super().__aiter__()


class Case(NamedTuple):
    """One function that uses a client, with its requirements."""

    name: str
    body: Callable[[Any], Any]
    groups: tuple[str, ...]
    connects: bool
    gets: bool
    peer: dict[str, Any]
    http: dict[str, Any]
    options: dict[str, Any]


CASES: Final[dict[str, Case]] = {}


def case(
    *,
    only: str = "",
    connects: bool = True,
    gets: bool = False,
    peer: dict[str, Any] | None = None,
    http: dict[str, Any] | None = None,
    **options: Any,
) -> Callable[[Any], Any]:
    """Register a case for the groups that have each of the words in their name.

    Args:
        only: Words; without the word of an era the case is for the two main ones.
        connects: Whether the client is connected before and closed afterwards.
        gets: Whether requests that open streams beside calls over HTTP are recorded.
            Unless the case waits for such a stream, it may not open in time.
        peer: Options of the server.
        http: Options of `Http`.
        options: Options of the client.
    """
    words = only.split()

    def add(body: Any) -> Any:
        groups = tuple(
            group
            for group in GROUPS
            if set(words) <= set(group.split("-"))
            and all(each in words or each not in group for each in ("sse", "memory"))
        )
        name = body.__name__
        assert name not in CASES, name
        CASES[name] = Case(
            name, body, groups, connects, gets, peer or {}, http or {}, options
        )
        return body

    return add


class Run:
    """One running case: the client, and the recorded values."""

    def __init__(self, group: str, case: Case, target: Any) -> None:
        self.client_kind, self.wire, self.era = group.split("-")
        self.target = target
        self.got: list[Any] = []
        self.is_blocking = self.client_kind == "sync"
        self.received: Any = queue.Queue() if self.is_blocking else asyncio.Queue()
        self.options = {"mode": "stateless" if self.era == "stateless" else "session"}
        self.options |= {
            name: value(self) if name in HANDLERS else value
            for name, value in case.options.items()
        }
        if not self.is_blocking:
            self.options.pop("background", None)
        self.client = self.make(target)

    def make(self, target: Any, **options: Any) -> Any:
        options = {**self.options, **options}
        if self.is_blocking:
            return Blocking(mcpwire.sync.Client(target, **options))
        return mcpwire.Client(target, **options)

    @property
    def verbs(self) -> Any:
        """The functions beside the client, such as `start_task`."""
        return Functions(self) if self.is_blocking else mcpwire

    def see(self, value: Any) -> None:
        self.got.append(shown.blank(shown.plain(value)))

    async def do(self, awaited: Any) -> Any:
        try:
            value = await awaited
        except Exception as error:  # noqa: BLE001 - the error is the outcome
            self.see(error)
            return None
        self.see(value)
        return value

    async def all(self, items: Any) -> None:
        """Record each item of an iterator, and its error."""
        try:
            async for item in items:
                self.see(item)
        except Exception as error:  # noqa: BLE001 - the error is the outcome
            self.see(error)

    @staticmethod
    def bare(value: Any) -> Any:
        """Return the result of a method that is not awaited."""
        return value.thing if isinstance(value, Blocking) else value

    def receive(self, value: Any) -> None:
        """Keep a value that a callback received."""
        self.received.put_nowait(value)

    async def take(self) -> None:
        """Record the next value that the callback receives."""
        if self.is_blocking:
            self.see(self.received.get(timeout=BOUND_S))
        else:
            self.see(await asyncio.wait_for(self.received.get(), BOUND_S))


class Functions:
    """The blocking functions beside the client, which take the unwrapped client."""

    def __init__(self, run: Run) -> None:
        self.run = run

    def __getattr__(self, name: str) -> Any:
        found = getattr(mcpwire.sync, name)
        return lambda client, *args, **options: Answer(
            found, (client.thing, *args), options
        )


HANDLERS: Final = frozenset({"sampling", "elicitation", "roots", "on_notification"})
"""Options whose values are functions of the run."""


async def _use(run: Run, case: Case) -> None:
    try:
        if case.connects:
            await run.client.connect()
        await case.body(run)
    finally:
        await run.client.aclose()


def drive(coroutine: Any) -> None:
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("a blocking client waited on a loop")


@contextlib.contextmanager
def _stdio(era: str, case: Case) -> Iterator[tuple[Any, list[Any]]]:
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder, "seen")
        log.touch()
        words = ["-S", "-P", "-m", "peer", ERAS[era], json.dumps(case.peer)]
        seen: list[Any] = []
        yield (
            mcpwire.Stdio(
                sys.executable, words, env={"SEEN": str(log), "PYTHONPATH": str(HERE)}
            ),
            seen,
        )
        lines = log.read_text(encoding="utf-8").splitlines()
        seen += [shown.blank(json.loads(line)) for line in lines]


@contextlib.contextmanager
def _memory(_: str, __: Case) -> Iterator[tuple[Any, list[Any]]]:
    from record import server

    yield server.server, []  # sent messages are recorded over other transports


OPENERS: Final = {"stdio": _stdio, "memory": _memory}

KINDS: Final = ("request", "listen", "notification", "answer", "GET", "DELETE")
"""Over HTTP only messages of one kind have a fixed order.

Responses have none: each has its own POST beside the calls, and one on a connection
that must be opened first may arrive after a response that was begun later.
"""


def _kind(seen: list[Any]) -> str:
    verb, _, _, body = seen
    if verb != "POST" or body is None:
        return verb if verb != "POST" else "request"
    if "method" not in body:
        return "answer"
    if body["method"] == "subscriptions/listen":
        return "listen"
    return "request" if "id" in body else "notification"


def _place(seen: list[Any]) -> tuple[int, int, str]:
    """Return the sort key of a message: its kind, and for responses the id."""
    kind = _kind(seen)
    id = json.dumps(seen[-1].get("id")) if kind == "answer" else ""
    return KINDS.index(kind), len(id), id


@contextlib.contextmanager
def _http(era: str, case: Case) -> Iterator[tuple[Any, list[Any]]]:
    seen: list[Any] = []
    with web.serve(ERAS[era], **case.peer) as (served, port):
        path = "/sse" if era == "sse" else "/mcp"
        yield mcpwire.Http(f"http://127.0.0.1:{port}{path}", **case.http), seen
    came = sorted(served.seen, key=_place)
    for verb, path, fields, body in came:
        beside = verb == "GET" or _kind([verb, path, fields, body]) == "listen"
        if not beside or case.gets or era == "sse":
            line = {"http": f"{verb} {path}", "head": shown.head(fields, era)}
            seen.append(line | ({} if body is None else {"body": shown.blank(body)}))


def make(group: str, names: Any = None) -> dict[str, Any]:
    from record import client_cases, group_cases  # noqa: F401 - they register

    record: dict[str, Any] = {}
    usual = [] if "memory" in group else _perform(group, CASES[USUAL])["peer"]
    for case in CASES.values():
        if group in case.groups and (not names or case.name in names):
            done = _perform(group, case)
            if case.name != USUAL:
                done["peer"] = shown.without(usual, done["peer"])
            record[case.name] = done
    return record


USUAL: Final = "what_was_agreed"
"""The case whose messages are left out of the other cases."""


def _perform(group: str, case: Case) -> dict[str, Any]:
    _, wire, era = group.split("-")
    with OPENERS.get(wire, _http)(era, case) as (target, seen):
        run = Run(group, case, target)
        if run.is_blocking:
            drive(_use(run, case))
        else:
            asyncio.run(asyncio.wait_for(_use(run, case), BOUND_S))
    return {"got": run.got, "peer": seen}

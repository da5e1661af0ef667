"""Runs cases against a server: finds its revisions, looks at what it has, keeps bounds.

::

    survey   for each revision: one connection, the handshake, what the server has
    cells    each transport and revision: shared cases one after another on one
             connection, those with a connection of their own beside them
    results  one for each case and cell, as they come

After each shared case the server must answer one more request: so a crash or a hang is
the verdict of the case that caused it, and the next case gets a new connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import shlex
from collections.abc import Mapping
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote

import attrs

from mcpwire._package import __version__
from mcpwire.check.case import (
    MODERN,
    Absent,
    Broken,
    Case,
    Finding,
    Lenient,
    Level,
    NoAnswer,
    NotAnswered,
    PeerDied,
    Start,
    Transport,
    Verdict,
)
from mcpwire.check.cases import CASES
from mcpwire.check.cases._items import LISTS, pages
from mcpwire.check.results import Cell, Report, Result
from mcpwire.check.roles import callable_tools, find_roles
from mcpwire.check.schemas import SchemaWatch
from mcpwire.check.subject import Answer, Facts, Patience, Subject, shown
from mcpwire.errors import ConnectError
from mcpwire.transports.http.target import Http
from mcpwire.transports.http.tls import ssl_context
from mcpwire.transports.targets import Stdio
from mcpwire.versions import LATEST, LATEST_SESSION, REVISIONS, Era, Revision
from mcpwire.wire.urls import Url, parse_url

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterable

__all__ = ["PROFILE", "Options", "run", "select"]

PROFILE: Final = "2026.1"
"""The newest profile: the frozen set of cases that a score is of."""

_FIRST_START_S: Final = 60.0  # `npx -y` and `uvx` fetch a server before it starts
_START_S: Final = 15.0
_SURVEY_S: Final = 300.0  # without a budget
_LATER_STARTS: Final = 10  # times as long as the first may a later start take
_REFUSED: Final = 3  # connections; then a server counts as gone
_HANGS: Final = 5  # cases one after another; then answers are waited for less long
_IMPATIENT: Final = 0.2  # of the usual time
_LISTENS_S: Final = 0.05  # between two attempts to connect
_PROBE_S: Final = 2.0
_PROBE_STARTS: Final = 3  # times as long as a start is `server/discover` waited for
_SECRET: Final = 8  # characters of a word that is one by itself
_HOSTILE: Final = 6  # times as long may an answer take to what floods


@attrs.frozen(kw_only=True)
class Options:
    """What to run, and how."""

    revisions: tuple[str, ...] = ()
    """Only these; all that the server speaks by default."""
    only: tuple[str, ...] = ()
    """Ids, their beginnings, families, or ``must``, ``should``, ``robust``."""
    skip: tuple[str, ...] = ()
    speed: Literal["quick", "full"] = "quick"
    """``quick`` leaves out slow cases, and runs those of level `ROBUST` in two
    revisions only: the newest with sessions and the newest without."""
    hostile: bool = False
    """Run the cases too that flood or exhaust."""
    seed: int = 1
    budget_s: float | None = None
    """After so many seconds no further case begins, and those that run end."""
    answer_s: float = 5.0
    """How long one answer may take."""
    wait_s: float = 0.0
    """How long a server at a URL may take until it takes connections."""
    roles: Mapping[str, str] = attrs.field(factory=dict)
    """Role -> the name of the tool that plays it."""
    allow_calls: tuple[str, ...] = ()
    """Patterns of names of tools that may be called beside those that only read."""
    headers: Mapping[str, str] = attrs.field(factory=dict)
    """Fields of each HTTP request, such as those that let it in; reports mask them."""
    tokens: Mapping[str, str] = attrs.field(factory=dict)
    """Kind -> access token. ``good`` goes with each request that `headers` does not
    authorize; the others must be refused: ``expired``, ``audience`` (for another
    server), ``issuer``, ``scope`` (lacks one); ``other`` is of another user."""
    again: tuple[str, ...] = ()
    """Further words of the command that repeats a result."""
    named: str = ""
    """What that command has for the target, such as ``@NAME``; by default its URL or
    command line, without secrets."""
    profile: str = PROFILE
    jobs: int = attrs.field(factory=lambda: min(8, (os.cpu_count() or 1) + 2))
    """How many processes of a stdio server may run at once."""


def select(options: Options, cases: Iterable[Case] = CASES) -> list[Case]:
    """Return the cases that the options choose.

    Raises:
        ValueError: A word of `only` or `skip` fits no case, or a revision is unknown.
    """
    _revisions(options)
    cases = [case for case in cases if case.profile <= options.profile]
    ids = {case: _ids(case) for case in cases}
    names = {case: ids[case] | {case.family, case.level.value} for case in cases}
    known = frozenset[str]().union(*names.values())
    only, skip = set(map(_as_level, options.only)), set(map(_as_level, options.skip))
    for word in (*options.only, *options.skip):
        if _as_level(word) not in known:
            raise ValueError(
                f"no case fits {word!r}: it takes an id, a family, must, should or "
                "robust; see mcpwire check list"
            )
    chosen = []
    for case in cases:
        is_usual = (case.is_quick or options.speed == "full") and (
            not case.is_hostile or options.hostile
        )
        is_named = not only or not only.isdisjoint(names[case])
        by_id = not only.isdisjoint(ids[case])
        if is_named and (is_usual or by_id) and skip.isdisjoint(names[case]):
            chosen.append(case)
    return chosen


def _as_level(word: str) -> str:
    return word.upper() if word.upper() in Level.__members__ else word


def _revisions(options: Options) -> list[Revision]:
    known = {revision.name: revision for revision in REVISIONS}
    for name in options.revisions:
        if name not in known:
            raise ValueError(
                f"--revision takes any of {', '.join(known)}, got {name!r}"
            )
    return [known[name] for name in options.revisions or known]


def _ids(case: Case) -> frozenset[str]:
    """Return a case's id, and its beginnings before a dot."""
    parts = case.id.split(".")
    return frozenset(".".join(parts[: n + 1]) for n in range(len(parts)))


@attrs.define(eq=False)
class _CellRun:
    """One transport and revision of the server, and its shared connection."""

    cell: Cell
    revision: Revision
    facts: Facts
    shared: Subject | None = None
    before: Subject | None = None
    """The shared connection before it, which a case has ended."""
    refused: int = 0
    """How many connections could not be opened."""
    kept: dict[str, Subject] = attrs.field(factory=dict)
    """Case -> its own connection, for the case that follows it."""
    borrows: bool = False
    """Whether another revision says which of its tools may be called."""
    hangs: int = 0
    """How many cases hung one after another."""
    gone: str = ""
    """Why the server cannot be reached any more."""


class _Run:
    """One run of many cases against one target."""

    def __init__(
        self,
        target: Stdio | Url,
        options: Options,
        cases: list[Case],
        on_result: Callable[[Result], object],
        tls: ssl.SSLContext | None,
    ) -> None:
        self._tls = tls
        self._target = target
        self._options = options
        self._cases = cases
        every = {case.id: case for case in (*CASES, *cases)}
        self._numbers = {id: number for number, id in enumerate(every)}
        self._on_result = on_result
        self._watch = SchemaWatch()
        is_stdio = isinstance(target, Stdio)
        self._start_s = _FIRST_START_S if is_stdio else _START_S
        self._took_s = 0.0
        """How long the first process took to answer."""
        self._starting = 0
        """How many processes that get an `initialize` are starting."""
        self._transport: Transport = "stdio" if is_stdio else "http"
        jobs = options.jobs if self._transport == "stdio" else 1
        self._jobs = asyncio.Semaphore(jobs)
        self._ends_at = (
            None if options.budget_s is None else monotonic() + options.budget_s
        )
        self._cells: list[_CellRun] = []
        self.results: list[Result] = []
        self.notes: list[str] = []
        self._spoken_revisions: list[str] = []
        self.server: dict[str, str] = {}
        self.out_of_budget = False

    async def __call__(self) -> None:
        try:
            cells = await self._survey_in_time()
            self._spoken_revisions = [cell.cell.revision for cell in cells]
            if self._transport == "stdio":
                async with asyncio.TaskGroup() as tasks:
                    for cell in cells:
                        tasks.create_task(self._run_cell(cell))
            else:
                for cell in cells:
                    await self._run_cell(cell)
        finally:
            for cell in self._cells:
                for subject in (cell.shared, *cell.kept.values()):
                    if subject is not None:
                        await subject.close()

    # --- survey -----------------------------------------------------------------------

    async def _survey_in_time(self) -> list[_CellRun]:
        budget = self._options.budget_s
        bound = max(_SURVEY_S if budget is None else budget, _START_S)
        try:
            async with asyncio.timeout(bound):
                return await self._survey()
        except TimeoutError:
            raise ConnectError(
                f"the server did not say what it has within {bound:g} s"
            ) from None

    async def _survey(self) -> list[_CellRun]:
        """Find the revisions that the server speaks, the newest of each era first."""
        wanted = sorted(
            _revisions(self._options),
            key=lambda r: (r is not LATEST_SESSION, r is not LATEST),
        )
        began = monotonic()
        count = 2 if self._transport == "stdio" else 1
        cells = await self._look_at_all(wanted[:count])
        problems = [each for each in cells if isinstance(each, str)]
        if len(problems) == len(cells) and monotonic() - began > _START_S:
            raise ConnectError(f"the server does not answer: {problems[0]}")
        if self._transport == "stdio":
            # It starts; many at once on a busy machine may take longer.
            self._start_s = min(_START_S + _LATER_STARTS * self._took_s, 3 * _START_S)
        else:
            self._start_s = 0.0
        cells += await self._look_at_all(wanted[count:])
        problems = [each for each in cells if isinstance(each, str)]
        spoken = [each for each in cells if not isinstance(each, str)]
        if not spoken and self._transport == "http":
            # 2025-11-25 basic/transports, "Backwards Compatibility".
            self._transport = "sse"
            sessions = (each for each in wanted if each.era is Era.SESSION)
            again = [await self._look_at(each) for each in sessions]
            spoken = [each for each in again if not isinstance(each, str)]
            if spoken:
                tried = zip(wanted, problems, strict=True)
                problems = [text for each, text in tried if each.era is Era.STATELESS]
                problems += [each for each in again if isinstance(each, str)]
        if not spoken:
            raise ConnectError(f"no revision could be used: {problems[0]}")
        self.notes += problems
        self._share_what_is_safe(spoken)
        return sorted(spoken, key=lambda each: each.revision)

    def _share_what_is_safe(self, cells: list[_CellRun]) -> None:
        """Let tools be called in revisions without annotations, too.

        A tool that says in one revision that it only reads does so in all.
        """
        safe = {t["name"] for cell in cells for t in cell.facts.callable_tools}
        for cell in cells:
            facts = cell.facts
            if cell.revision.name == REVISIONS[0].name:
                named = [t for t in facts.tools if isinstance(t.get("name"), str)]
                chosen = [t for t in named if t["name"] in safe]
                cell.borrows = len(chosen) > len(facts.callable_tools)
                facts.callable_tools = chosen
                facts.roles = find_roles(
                    facts.tools, facts.callable_tools, self._options.roles
                )

    async def _look_at_all(self, revisions: list[Revision]) -> list[_CellRun | str]:
        """Return the cells of revisions; those of processes are looked at at once."""
        if self._transport != "stdio":
            return [await self._look_at(each) for each in revisions]
        self._starting = sum(each.era is Era.SESSION for each in revisions)
        looks = [asyncio.create_task(self._look_at(each)) for each in revisions]
        try:
            return await asyncio.gather(*looks)
        finally:
            for each in looks:
                each.cancel()
            await asyncio.gather(*looks, return_exceptions=True)

    async def _look_at(self, revision: Revision) -> _CellRun | str:
        """Return the cell of a revision, or why there is none."""
        subject = self._subject(revision, None, f"survey {revision}")
        try:
            async with self._jobs:
                await subject.open()
                facts = await self._facts(subject, revision)
        except (Finding, ConnectError) as found:
            await subject.close()
            return f"{revision}: {self._spoken(found)}"
        except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
            await subject.close()
            return f"{revision}: what the server says cannot be read: {error!r}"
        except BaseException:
            await subject.close()
            raise
        finally:
            self._starting -= revision.era is Era.SESSION
        cell = Cell("server", self._transport, revision.name)
        run = _CellRun(cell, revision, facts, subject)
        self._cells.append(run)
        return run

    def _spoken(self, found: Exception) -> str:
        if isinstance(found, Finding):
            return found.actual or found.expected
        return str(found)

    async def _greet(self, subject: Subject) -> Answer:
        began = monotonic()
        answer = await self._first_answer(subject)
        self._took_s = self._took_s or monotonic() - began
        return answer

    async def _first_answer(self, subject: Subject) -> Answer:
        """Return the answer to the handshake of a server that is perhaps starting.

        A server without the newest revision need not answer `server/discover`. Over
        stdio, its answer to an `initialize` behind that shows that it has started.
        """
        if subject.stdio is None or not subject.is_modern:
            return await subject.handshake()
        id = subject.next_id()
        await subject.send(subject.message("server/discover", id=id))
        has_company = bool(self._starting)
        while True:
            with contextlib.suppress(TimeoutError):
                async with Patience(max(_PROBE_S, _PROBE_STARTS * self._took_s)):
                    return await subject.answer(id)
            if not self._starting:
                break  # else processes that began with this one start, too
        if has_company and not self._took_s:
            raise NoAnswer("an answer to server/discover", "no answer")
        legacy = {**subject.hello(), "protocolVersion": LATEST_SESSION.name}
        hello = {"jsonrpc": "2.0", "id": subject.next_id(), "method": "initialize"}
        await subject.send({**hello, "params": legacy})
        await subject.wait_for(lambda m: m.is_answer, "any answer")
        await subject.answer(id, timeout=_PROBE_S)
        await subject.close()  # an `initialize` is no part of this revision
        subject.forget()
        await subject.open()
        return await subject.handshake()

    async def _facts(self, subject: Subject, revision: Revision) -> Facts:
        hello = await self._greet(subject)
        if hello.result is None:
            raise Broken("a result", shown(hello.message.raw))
        if subject.is_modern:
            spoken = hello.result.get("supportedVersions")
        else:
            spoken = [hello.result.get("protocolVersion")]
        if not isinstance(spoken, list) or revision.name not in spoken:
            raise Broken(revision.name, f"it speaks {shown(spoken)}")
        facts = subject.facts = Facts(revision, hello.result)
        facts.tokens = dict(self._options.tokens)
        for name in ("name", "version"):
            if isinstance(facts.server_info.get(name), str):
                self.server[name] = shown(facts.server_info[name])
        # A server may make its lists when it starts, or when it is asked for them.
        patience = subject.bound_s + subject.start_s
        await self._choose_barrier(subject, patience)
        for listed in LISTS:
            if facts.declares(listed.capability):
                items = [
                    item
                    for page in await pages(subject, listed, timeout=patience)
                    for item in page.items
                ]
                setattr(facts, listed.word, items)
        facts.callable_tools = callable_tools(facts.tools, self._options.allow_calls)
        facts.roles = find_roles(facts.tools, facts.callable_tools, self._options.roles)
        return facts

    async def _choose_barrier(self, subject: Subject, patience: float) -> None:
        candidates: dict[str, float | None] = {"ping": None, "tools/list": patience}
        if subject.is_modern:
            candidates = {"server/discover": None}
        answered = []
        for method, timeout in candidates.items():
            with contextlib.suppress(NoAnswer):
                answer = await subject.request(method, timeout=timeout)
                answered.append(method)
                if answer.result is not None:
                    break
        if not answered:
            raise NoAnswer("an answer to a ping", "no answer")
        # Many cases hold a changed request against the result of this one.
        subject.facts.barrier = answered[-1]

    # --- cases ------------------------------------------------------------------------

    def _subject(self, revision: Revision, facts: Facts | None, seed: str) -> Subject:
        headers = dict(self._options.headers)
        good = self._options.tokens.get("good")
        if good is not None and "authorization" not in map(str.lower, headers):
            headers["Authorization"] = f"Bearer {good}"
        subject = Subject(
            self._target,
            revision,
            facts=facts,
            headers=headers,
            is_sse=self._transport == "sse",
            watch=self._watch,
            seed=seed,
            bound_s=self._options.answer_s,
            start_s=self._start_s,
            tls=self._tls,
        )
        subject.tape.secrets = _secrets(headers, self._options.tokens)
        return subject

    async def _run_cell(self, run: _CellRun) -> None:
        chosen = [
            case
            for case in self._cases
            if run.cell.revision in case.revisions
            and _runs_over(case, self._transport)
            and self._is_due(run, case)
        ]
        last = [case for case in chosen if case.start is Start.LAST]
        own = [c for c in chosen if c.start in {Start.OWN, Start.RAW}]
        shared = [case for case in chosen if case.start is Start.SHARED]
        if self._transport == "stdio":
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._in_turn(run, shared))
                ids = {case.id for case in own}
                for case in own:
                    if case.follows not in ids:
                        followers = [each for each in own if each.follows == case.id]
                        tasks.create_task(self._in_turn(run, [case, *followers]))
        else:
            await self._in_turn(run, shared + own)
        await self._in_turn(run, last)

    def _is_due(self, run: _CellRun, case: Case) -> bool:
        """Tell whether the revision of a cell is one to run a case in."""
        spoken = [name for name in self._spoken_revisions if name in case.revisions]
        if not case.is_once:
            if self._options.speed == "full" or case.level is not Level.ROBUST:
                return True
            is_modern = run.cell.revision in MODERN
            spoken = [name for name in spoken if (name in MODERN) is is_modern]
        return run.cell.revision == max(spoken)

    async def _in_turn(self, run: _CellRun, cases: list[Case]) -> None:
        for case in cases:
            async with contextlib.AsyncExitStack() as held:
                if case.start is not Start.SHARED:
                    await held.enter_async_context(self._jobs)
                result = await self._run_within_budget(run, case)
            self.results.append(result)
            self._on_result(result)

    async def _run_within_budget(self, run: _CellRun, case: Case) -> Result:
        left = None if self._ends_at is None else self._ends_at - monotonic()
        with contextlib.suppress(TimeoutError):
            if left is None or left > 0:
                async with asyncio.timeout(left):
                    return await self._run_case(run, case)
        self.out_of_budget = True
        return self._result(run, case, Verdict.UNRUN, "", "the budget ran out")

    async def _run_case(self, run: _CellRun, case: Case) -> Result:
        began = monotonic()
        if run.gone:
            return self._result(run, case, Verdict.UNRUN, "", run.gone)
        missing = next((need for need in case.needs if not _has(run.facts, need)), None)
        if missing is not None:
            return self._result(run, case, Verdict.ABSENT, "", _lacking(missing))
        try:
            subject = await self._connect(run, case)
        except (Finding, ConnectError) as found:
            # One process that starts too slowly on a busy machine is not the end.
            why = f"no connection any more: {self._spoken(found)}"
            run.refused += 1
            if case.start is Start.SHARED or run.refused == _REFUSED:
                run.gone = why
            return self._result(run, case, Verdict.UNRUN, "", why)
        subject.begin(self._numbers[case.id], case.id)
        subject.bound_s = self._options.answer_s * self._patience(run, case)
        subject.random.seed(f"{self._options.seed} {case.id} {run.cell}")
        verdict = Verdict.UNRUN
        try:
            verdict, expected, actual = await self._judge(subject, case)
        finally:
            await subject.close_others()
            if verdict is Verdict.PASS and self._is_followed(case):
                run.kept[case.id] = subject
            elif case.start in {Start.OWN, Start.RAW}:
                await subject.close()
        run.hangs = run.hangs + 1 if verdict is Verdict.HANG else 0
        if verdict in {Verdict.CRASH, Verdict.HANG} and subject is run.shared:
            await subject.close()
            run.shared, run.before = None, subject
        result = self._result(run, case, verdict, expected, actual)
        keeps = verdict is not Verdict.PASS and verdict is not Verdict.ABSENT
        if keeps and case.start is Start.LAST and not subject.last_sent:
            again = self._again(run, case, subject.case_of(actual))
            result = attrs.evolve(result, again=again)
        return attrs.evolve(
            result,
            seconds=round(monotonic() - began, 4),
            expected=subject.tape.masked_text(expected),
            actual=subject.tape.masked_text(actual),
            sent=shown(subject.tape.masked(subject.last_sent)) if keeps else "",
            octets=tuple(
                (round(o.at, 6), o.direction, o.stream, o.data)
                for o in subject.tape.octets
            ),
        )

    def _is_followed(self, case: Case) -> bool:
        is_raw = case.start is Start.RAW and self._transport == "stdio"
        return is_raw and any(each.follows == case.id for each in self._cases)

    def _patience(self, run: _CellRun, case: Case) -> float:
        """Return how many times `Options.answer_s` the answers to a case may take."""
        if case.is_hostile:
            return _HOSTILE
        return _IMPATIENT if run.hangs >= _HANGS else 1.0

    async def _connect(self, run: _CellRun, case: Case) -> Subject:
        if case.start in {Start.SHARED, Start.LAST} and run.shared is not None:
            return run.shared
        kept = run.kept.pop(case.follows, None)
        subject = kept or self._subject(run.revision, run.facts, case.id)
        if case.capabilities is not None:
            subject.capabilities = case.capabilities
        try:
            if kept is None:
                await subject.open()
            if case.start is not Start.RAW:
                await subject.handshake()
        except BaseException:
            await subject.close()
            raise
        if case.start in {Start.SHARED, Start.LAST}:
            run.shared = subject
            if run.before is not None:
                subject.go_on_from(run.before)
        return subject

    async def _judge(self, subject: Subject, case: Case) -> tuple[Verdict, str, str]:
        verdict, expected, actual = await _verdict_of(subject, case)
        if case.start is Start.SHARED and verdict not in {Verdict.CRASH, Verdict.HANG}:
            # A crash or a hang after the answer is this case's too.
            try:
                await subject.barrier()
            except NoAnswer as found:
                return Verdict.HANG, found.expected, found.actual
            except PeerDied as found:
                return Verdict.CRASH, found.expected, found.actual
        return verdict, expected, actual

    def _result(
        self, run: _CellRun, case: Case, verdict: Verdict, expected: str, actual: str
    ) -> Result:
        return Result(
            case=case.id,
            cell=run.cell,
            level=case.level,
            verdict=verdict,
            title=case.title,
            source=f"{run.cell.revision} {case.source}" if case.source else "",
            family=case.family,
            expected=expected,
            actual=actual,
            again=self._again(run, case),
        )

    def _again(self, run: _CellRun, case: Case, cause: str | None = "") -> str:
        """Return the command that runs the case alone.

        `cause`: the case before it that a finding comes from; ``None``: any.
        """
        options = self._options
        words = ["mcpwire", "check"]
        needs_full = cause is None or run.borrows  # or it is not the newest revision
        words += ["--full"] * (needs_full and options.speed == "full")
        if cause is None:
            for chosen in options.only:
                words += ["--only", chosen]
            for left_out in options.skip:
                words += ["--skip", left_out]
        else:
            words += ["--only", case.id, *(["--only", cause] if cause else [])]
        for revision in self._with_lender(run):
            words += ["--revision", revision]
        words += ["--seed", str(options.seed)]
        for role, name in options.roles.items():
            words += ["--map", f"{role}={name}"]
        for pattern in options.allow_calls:
            words += ["--allow-calls", pattern]
        words += options.again
        if options.named or self._transport != "stdio":
            return shlex.join([*words, options.named or str(self._target)])
        return f"{shlex.join(words)} -- {self._target}"

    def _with_lender(self, run: _CellRun) -> list[str]:
        """Return the revision of a cell, and that which says what may be called."""
        lenders = [self._spoken_revisions[-1]] if run.borrows else []
        return [run.cell.revision, *lenders]


async def _verdict_of(subject: Subject, case: Case) -> tuple[Verdict, str, str]:
    """Run a case's function; tell its verdict, what was expected and what came."""
    start_s = subject.start_s if case.start is Start.RAW else 0.0
    try:
        async with Patience(case.bound_s + start_s) as subject.limit:
            await case.run(subject)
    except Finding as found:
        if isinstance(found, Absent):
            return Verdict.ABSENT, "", f"no {found.expected}"
        verdict = _VERDICTS[type(found)]
        if verdict is Verdict.FAIL and case.level is not Level.MUST:
            verdict = Verdict.WARN
        return verdict, found.expected, found.actual
    except TimeoutError:
        expected = f"the case takes at most {case.bound_s:g} s"
        return Verdict.HANG, expected, "it took longer"
    except Exception as error:  # noqa: BLE001 - what a server says does not end the run
        return Verdict.UNRUN, "", f"the case could not read an answer: {error!r}"
    return Verdict.PASS, "", ""


_VERDICTS: Final[dict[type[Finding], Verdict]] = {
    Broken: Verdict.FAIL,
    Lenient: Verdict.LENIENT,
    NoAnswer: Verdict.HANG,
    NotAnswered: Verdict.FAIL,
    PeerDied: Verdict.CRASH,
}


def _secrets(
    headers: Mapping[str, str], tokens: Mapping[str, str]
) -> tuple[bytes, ...]:
    """Return the octets that no report may show, the longest first.

    A header field such as ``Authorization: Bearer x`` has its secret in its last word;
    in the query of a URL it may be quoted.
    """
    whole = {*headers.values(), *tokens.values()}
    words = {word for each in whole for word in each.split() if len(word) >= _SECRET}
    found = {each for each in whole if len(each) >= _SECRET // 2} | words
    found |= {quote(each) for each in found}
    return tuple(each.encode() for each in sorted(found, key=len, reverse=True))


def _runs_over(case: Case, transport: Transport) -> bool:
    is_general = {"stdio", "http"} <= set(case.transports)
    return transport in case.transports or (transport == "sse" and is_general)


def _has(facts: Facts, need: str) -> bool:
    """Tell whether the server has what a case needs; see `Case.needs`."""
    kind, is_listed, name = need.partition(":")
    if not is_listed:
        return facts.declares(need)
    if kind in {"role", "token"}:
        return name in (facts.roles if kind == "role" else facts.tokens)
    if kind == "extension":
        return facts.has_extension(f"io.modelcontextprotocol/{name}")
    listed = {
        "tool": facts.tools,
        "call": facts.callable_tools,
        "resource": facts.resources,
        "template": facts.templates,
        "prompt": facts.prompts,
    }
    return bool(listed[kind])


def _lacking(need: str) -> str:
    """Say what the server lacks, and the option that may help; see `Case.needs`."""
    kind, _, name = need.partition(":")
    return {
        "role": f"no tool for {name!r} that may be called (--map {name}=TOOL)",
        "call": "no tool that may be called (--allow-calls GLOB allows more)",
        "token": f"no token {name!r} (--auth {name}=VARIABLE)",
        "extension": f"no extension {name!r}",
    }.get(kind, f"no {kind}")


async def _listens(url: Url, timeout: float) -> None:
    """Wait while a server takes no connection: nobody says when it begins to listen."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            while True:
                try:
                    _, writer = await asyncio.open_connection(url.host, url.port)
                except OSError:  # no plain refusal where a name has two addresses
                    await asyncio.sleep(_LISTENS_S)
                else:
                    writer.transport.abort()
                    return


async def run(
    target: Stdio | Http | str,
    options: Options | None = None,
    *,
    cases: Iterable[Case] = CASES,
    on_result: Callable[[Result], object] = lambda _: None,
) -> Report:
    """Check a server and return what was found.

    Args:
        target: A command, or a server at a URL; of an `Http` the URL, the headers and
            what TLS needs are used.
        options: What to run, and how.
        cases: The cases to choose from; your own may be among them.
        on_result: Called with each result as it comes.

    Raises:
        ConnectError: The server cannot be started or reached, or speaks no revision.
        ValueError: The options name something that is not there.
        LocalProtocolError: jsonschema-rs is not installed.

    Safe to cancel: processes that were started are ended.
    """
    options = options or Options()
    where: Stdio | Url
    if isinstance(target, Stdio):
        where, tls = target, None
    else:
        http = Http(target) if isinstance(target, str) else target
        if http.headers is not None and not isinstance(http.headers, Mapping):
            raise ValueError("headers must be a mapping here, got a function")
        if http.proxy is not None:
            raise ValueError("a check connects to the server itself: it takes no proxy")
        options = attrs.evolve(
            options, headers={**(http.headers or {}), **options.headers}
        )
        where = parse_url(http.url)
        tls = ssl_context(http) if where.scheme == "https" else None
        await _listens(where, options.wait_s)
    running = _Run(where, options, select(options, cases), on_result, tls)
    began, started = monotonic(), datetime.now(UTC)
    await running()
    return make_report(
        str(where),
        options,
        running.results,
        running.server,
        started=started,
        seconds=round(monotonic() - began, 3),
        out_of_budget=running.out_of_budget,
        notes=tuple(running.notes),
    )


def make_report(
    subject: str,
    options: Options,
    results: Iterable[Result],
    server: Mapping[str, str],
    *,
    started: datetime | None = None,
    **facts: Any,
) -> Report:
    """Return a report of results, with what is known of the machine."""
    return Report(
        subject=subject,
        server=server,
        profile=options.profile,
        seed=options.seed,
        started=(started or datetime.now(UTC)).isoformat(timespec="seconds"),
        machine={
            "system": platform.platform(terse=True),
            "python": platform.python_version(),
            "cores": str(os.cpu_count()),
        },
        tool=f"mcpwire {__version__}",
        results=tuple(results),
        **facts,
    )

"""Runner of the cases: detects revisions and features, and enforces time limits.

::

    survey   for each revision: one connection, the handshake, the server's features
    cells    each transport and revision: shared cases in sequence on one connection,
             over stdio concurrently with cases on connections of their own
    results  one per case and cell, reported as soon as the case ends

After each shared case the server must answer one more request, so that a crash or a
hang is attributed to the case that caused it; the next case gets a new connection.
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
    EndedWithoutAnswer,
    Finding,
    Lenient,
    Level,
    NoAnswer,
    PeerDied,
    Start,
    Transport,
    Unobserved,
    Verdict,
    cite,
)
from mcpwire.check.cases import CASES
from mcpwire.check.cases._items import LISTS, fetch_pages
from mcpwire.check.results import Cell, Report, Result
from mcpwire.check.roles import callable_tools, find_roles
from mcpwire.check.schemas import MessageValidator
from mcpwire.check.subject import Answer, Facts, Subject, TimeLimit, printable
from mcpwire.errors import ConnectError
from mcpwire.transports.http.credentials import secret_segments
from mcpwire.transports.http.target import Http
from mcpwire.transports.http.tls import ssl_context
from mcpwire.transports.targets import Stdio
from mcpwire.versions import LATEST, LATEST_SESSION, REVISIONS, Era, Revision
from mcpwire.wire.urls import Url, parse_url

if TYPE_CHECKING:
    import ssl
    from collections.abc import Awaitable, Callable, Iterable

PROFILE: Final = "2026.1"
"""The newest profile: a frozen set of cases that scores refer to."""

_FIRST_START_TIMEOUT_S: Final = 60.0  # `npx -y` and `uvx` download a server first
_START_TIMEOUT_S: Final = 15.0
_SURVEY_TIMEOUT_S: Final = 300.0  # if there is no budget
_LATER_START_FACTOR: Final = 10  # maximum time of a later start, in first starts
_MAX_FAILED_CONNECTIONS: Final = 3  # after these a server counts as gone
_MAX_HANGS: Final = 5  # consecutive hangs, after which the time limit is shortened
_SHORT_TIMEOUT_FACTOR: Final = 0.2  # of the usual time limit
_CONNECT_INTERVAL_S: Final = 0.05  # between two attempts to connect
_PROBE_TIMEOUT_S: Final = 2.0
_PROBE_START_FACTOR: Final = 3  # start times that `server/discover` may take
_MIN_SECRET_LENGTH: Final = 8  # minimum length of a word that is masked on its own
_HOSTILE_TIMEOUT_FACTOR: Final = 6  # in cases that flood the server


@attrs.frozen(kw_only=True)
class Options:
    """Options of a run."""

    revisions: tuple[str, ...] = ()
    """The revisions to test; by default all that the server supports."""
    only: tuple[str, ...] = ()
    """Ids, prefixes of ids, families, or ``must``, ``should``, ``robust``."""
    skip: tuple[str, ...] = ()
    speed: Literal["quick", "full"] = "quick"
    """``quick`` omits slow cases, and runs cases of level `ROBUST` in two revisions
    only: the newest with sessions and the newest without."""
    hostile: bool = False
    """Whether to run also the cases that flood or exhaust the server."""
    seed: int = 1
    budget_s: float | None = None
    """Time limit of the run in seconds: then running cases end and no others start."""
    answer_s: float = 5.0
    """Time limit of one answer in seconds."""
    wait_s: float = 0.0
    """Maximum wait in seconds until a server at a URL accepts connections."""
    roles: Mapping[str, str] = attrs.field(factory=dict)
    """Role -> name of the tool that has the role."""
    allow_calls: tuple[str, ...] = ()
    """Name patterns of tools that may be called in addition to read-only ones."""
    headers: Mapping[str, str] = attrs.field(factory=dict)
    """HTTP header fields of each request, such as credentials; masked in reports."""
    tokens: Mapping[str, str] = attrs.field(factory=dict)
    """Kind -> access token. ``good`` is sent with each request unless `headers` has an
    ``Authorization``; the server must refuse ``expired``, ``audience`` (another
    server), ``issuer`` and ``scope`` (one is missing); ``other`` is of another user."""
    again: tuple[str, ...] = ()
    """Further words of the command that reproduces a result."""
    named: str = ""
    """The target in that command, such as ``@NAME``; by default the URL or command
    line, without secrets."""
    profile: str = PROFILE
    jobs: int = attrs.field(factory=lambda: min(8, (os.cpu_count() or 1) + 2))
    """The maximum number of concurrent processes of a stdio server, or of a client."""


def select(options: Options, cases: Iterable[Case] = CASES) -> list[Case]:
    """Return the cases that the options select.

    Raises:
        ValueError: A word of `only` or `skip` matches no case; a revision is unknown.
    """
    requested_revisions(options)
    cases = [case for case in cases if case.profile <= options.profile]
    ids = {case: _id_prefixes(case) for case in cases}
    names = {case: ids[case] | {case.family, case.level.value} for case in cases}
    known = frozenset[str]().union(*names.values())
    only, skip = set(map(_as_level, options.only)), set(map(_as_level, options.skip))
    for word in (*options.only, *options.skip):
        if _as_level(word) not in known:
            raise ValueError(
                f"no case matches {word!r}: give an id, a family, must, should or "
                "robust; see mcpwire check list"
            )
    selected = []
    for case in cases:
        is_usual = (case.is_quick or options.speed == "full") and (
            not case.is_hostile or options.hostile
        )
        is_named = not only or not only.isdisjoint(names[case])
        is_named_by_id = not only.isdisjoint(ids[case])
        if is_named and (is_usual or is_named_by_id) and skip.isdisjoint(names[case]):
            selected.append(case)
    return selected


def _as_level(word: str) -> str:
    return word.upper() if word.upper() in Level.__members__ else word


def requested_revisions(options: Options) -> list[Revision]:
    """Return the revisions of the options; by default all."""
    known = {revision.name: revision for revision in REVISIONS}
    for name in options.revisions:
        if name not in known:
            raise ValueError(
                f"--revision takes any of {', '.join(known)}, got {name!r}"
            )
    return [known[name] for name in options.revisions or known]


def _id_prefixes(case: Case) -> frozenset[str]:
    """Return a case's id and the prefixes of it that end before a dot."""
    parts = case.id.split(".")
    return frozenset(".".join(parts[: n + 1]) for n in range(len(parts)))


@attrs.define(eq=False)
class _CellRun:
    """State of the run for one transport and revision."""

    cell: Cell
    revision: Revision
    facts: Facts
    shared: Subject | None = None
    previous: Subject | None = None
    """The previous shared connection, closed after a crash or a hang."""
    failed_connections: int = 0
    """The number of failed connection attempts."""
    reusable: dict[str, Subject] = attrs.field(factory=dict)
    """Case id -> its connection, kept for the case that follows it."""
    uses_other_annotations: bool = False
    """Whether the annotations of another revision decide which tools may be called."""
    hangs: int = 0
    """The number of consecutive cases that hung."""
    unreachable_reason: str = ""
    """The reason why the server is no longer reachable."""


class _Run:
    """One run of the selected cases against one target."""

    def __init__(
        self,
        target: Stdio | Url,
        options: Options,
        cases: list[Case],
        on_result: Callable[[Result], object],
        tls: ssl.SSLContext | None,
        *,
        secrets: set[str],
    ) -> None:
        self._tls = tls
        self._secrets = secrets  # of the URL
        self._target = target
        self._options = options
        self._cases = cases
        all_cases = {case.id: case for case in (*CASES, *cases)}
        self._numbers = {id: number for number, id in enumerate(all_cases)}
        self._on_result = on_result
        self._validator = MessageValidator()
        is_stdio = isinstance(target, Stdio)
        self._start_s = _FIRST_START_TIMEOUT_S if is_stdio else _START_TIMEOUT_S
        self._first_start_s = 0.0
        """How long the first process took to answer, in seconds."""
        self._starting_count = 0
        """The number of processes in startup that receive an `initialize`."""
        self._transport: Transport = "stdio" if is_stdio else "http"
        jobs = options.jobs if self._transport == "stdio" else 1
        self._jobs = asyncio.Semaphore(jobs)
        self._deadline = (
            None if options.budget_s is None else monotonic() + options.budget_s
        )
        self._cells: list[_CellRun] = []
        self.results: list[Result] = []
        self.notes: list[str] = []
        self._supported_revisions: list[str] = []
        self.server: dict[str, str] = {}
        self.out_of_budget = False

    async def execute(self) -> None:
        try:
            cells = await self._survey_within_limit()
            self._supported_revisions = [cell.cell.revision for cell in cells]
            if self._transport == "stdio":
                async with asyncio.TaskGroup() as tasks:
                    for cell in cells:
                        tasks.create_task(self._run_cell(cell))
            else:
                for cell in cells:
                    await self._run_cell(cell)
        finally:
            for cell in self._cells:
                for subject in (cell.shared, *cell.reusable.values()):
                    if subject is not None:
                        await subject.close()

    # --- survey -----------------------------------------------------------------------

    async def _survey_within_limit(self) -> list[_CellRun]:
        budget = self._options.budget_s
        bound = max(_SURVEY_TIMEOUT_S if budget is None else budget, _START_TIMEOUT_S)
        try:
            async with asyncio.timeout(bound):
                return await self._survey()
        except TimeoutError:
            raise ConnectError(
                f"the server did not list its features within {bound:g} s"
            ) from None

    async def _survey(self) -> list[_CellRun]:
        """Return a cell for each revision that the server supports, sorted."""
        revisions = sorted(
            requested_revisions(self._options),
            key=lambda r: (r is not LATEST_SESSION, r is not LATEST),
        )
        began = monotonic()
        count = 2 if self._transport == "stdio" else 1
        cells = await self._probe_revisions(revisions[:count])
        problems = [each for each in cells if isinstance(each, str)]
        if len(problems) == len(cells) and monotonic() - began > _START_TIMEOUT_S:
            raise ConnectError(f"the server does not answer: {problems[0]}")
        if self._transport == "stdio":
            # Concurrent starts on a busy machine may take longer than the first one.
            self._start_s = min(
                _START_TIMEOUT_S + _LATER_START_FACTOR * self._first_start_s,
                3 * _START_TIMEOUT_S,
            )
        else:
            self._start_s = 0.0
        cells += await self._probe_revisions(revisions[count:])
        problems = [each for each in cells if isinstance(each, str)]
        supported = [each for each in cells if not isinstance(each, str)]
        if not supported and self._transport == "http":
            # 2025-11-25 basic/transports, "Backwards Compatibility".
            self._transport = "sse"
            sessions = (r for r in revisions if r.era is Era.SESSION)
            sse_cells = [await self._probe_revision(revision) for revision in sessions]
            supported = [each for each in sse_cells if not isinstance(each, str)]
            if supported:
                tried = zip(revisions, problems, strict=True)
                problems = [
                    text for revision, text in tried if revision.era is Era.STATELESS
                ]
                problems += [each for each in sse_cells if isinstance(each, str)]
        if not supported:
            raise ConnectError(f"no revision could be used: {problems[0]}")
        self.notes += problems
        self._share_safe_tools(supported)
        return sorted(supported, key=lambda cell: cell.revision)

    def _share_safe_tools(self, cells: list[_CellRun]) -> None:
        """Allow calls of read-only tools in the revision without annotations, too.

        A tool with `readOnlyHint` in one revision is read-only in all.
        """
        safe = {t["name"] for cell in cells for t in cell.facts.callable_tools}
        for cell in cells:
            facts = cell.facts
            if cell.revision.name == REVISIONS[0].name:
                named = [t for t in facts.tools if isinstance(t.get("name"), str)]
                safe_tools = [t for t in named if t["name"] in safe]
                cell.uses_other_annotations = len(safe_tools) > len(
                    facts.callable_tools
                )
                facts.callable_tools = safe_tools
                facts.roles = find_roles(
                    facts.tools, facts.callable_tools, self._options.roles
                )

    async def _probe_revisions(self, revisions: list[Revision]) -> list[_CellRun | str]:
        """Return a cell or problem per revision; over stdio probe them concurrently."""
        if self._transport != "stdio":
            return [await self._probe_revision(revision) for revision in revisions]
        self._starting_count = sum(r.era is Era.SESSION for r in revisions)
        probes = [
            asyncio.create_task(self._probe_revision(revision))
            for revision in revisions
        ]
        try:
            return await asyncio.gather(*probes)
        finally:
            for probe in probes:
                probe.cancel()
            await asyncio.gather(*probes, return_exceptions=True)

    async def _probe_revision(self, revision: Revision) -> _CellRun | str:
        """Return the cell of a revision, or the reason why there is none."""
        subject = self._make_subject(revision, None, f"survey {revision}")
        try:
            async with self._jobs:
                await subject.open()
                facts = await self._read_facts(subject, revision)
        except (Finding, ConnectError) as error:
            await subject.close()
            return f"{revision}: {self._describe_failure(error)}"
        except (ArithmeticError, AttributeError, LookupError, TypeError) as error:
            await subject.close()
            return f"{revision}: the server's answers cannot be read: {error!r}"
        except BaseException:
            await subject.close()
            raise
        finally:
            self._starting_count -= revision.era is Era.SESSION
        cell = Cell("server", self._transport, revision.name)
        run = _CellRun(cell, revision, facts, subject)
        self._cells.append(run)
        return run

    def _describe_failure(self, error: Exception) -> str:
        if isinstance(error, Finding):
            return error.actual or error.expected
        return str(error)

    async def _time_handshake(self, subject: Subject) -> Answer:
        began = monotonic()
        answer = await self._first_handshake(subject)
        self._first_start_s = self._first_start_s or monotonic() - began
        return answer

    async def _first_handshake(self, subject: Subject) -> Answer:
        """Return the handshake answer of a server that may still be starting.

        A server without the newest revision need not answer `server/discover`. Over
        stdio, its answer to a later `initialize` shows that it has started.
        """
        if subject.stdio is None or not subject.is_modern:
            return await subject.handshake()
        id = subject.next_id()
        await subject.send(subject.message("server/discover", id=id))
        has_concurrent_starts = bool(self._starting_count)
        while True:
            with contextlib.suppress(TimeoutError):
                async with TimeLimit(
                    max(_PROBE_TIMEOUT_S, _PROBE_START_FACTOR * self._first_start_s)
                ):
                    return await subject.wait_answer(id)
            if not self._starting_count:
                break  # else wait for the processes that were started at the same time
        if has_concurrent_starts and not self._first_start_s:
            raise NoAnswer("an answer to server/discover", "no answer")
        legacy = {**subject.initialize_params(), "protocolVersion": LATEST_SESSION.name}
        request = {"jsonrpc": "2.0", "id": subject.next_id(), "method": "initialize"}
        await subject.send({**request, "params": legacy})
        await subject.wait_for(lambda m: m.is_answer, "any answer")
        await subject.wait_answer(id, timeout=_PROBE_TIMEOUT_S)
        await subject.close()  # an `initialize` is not part of this revision
        subject.clear_received()
        await subject.open()
        return await subject.handshake()

    async def _read_facts(self, subject: Subject, revision: Revision) -> Facts:
        answer = await self._time_handshake(subject)
        if answer.result is None:
            raise Broken("a result", printable(answer.message.raw))
        if subject.is_modern:
            versions = answer.result.get("supportedVersions")
        else:
            versions = [answer.result.get("protocolVersion")]
        if not isinstance(versions, list) or revision.name not in versions:
            raise Broken(revision.name, f"it supports {printable(versions)}")
        facts = subject.facts = Facts(revision, answer.result)
        facts.tokens = dict(self._options.tokens)
        for name in ("name", "version"):
            if isinstance(facts.server_info.get(name), str):
                self.server[name] = printable(facts.server_info[name])
        # A server may build its lists at startup or on the first request for them.
        list_timeout = subject.bound_s + subject.start_s
        await self._choose_barrier(subject, list_timeout)
        for kind in LISTS:
            if facts.declares(kind.capability):
                items = [
                    item
                    for page in await fetch_pages(subject, kind, timeout=list_timeout)
                    for item in page.items
                ]
                setattr(facts, kind.plural, items)
        facts.callable_tools = callable_tools(facts.tools, self._options.allow_calls)
        facts.roles = find_roles(facts.tools, facts.callable_tools, self._options.roles)
        return facts

    async def _choose_barrier(self, subject: Subject, list_timeout: float) -> None:
        candidates: dict[str, float | None] = {"ping": None, "tools/list": list_timeout}
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
        # Many cases compare a changed request with the result of this one.
        subject.facts.barrier = answered[-1]

    # --- cases ------------------------------------------------------------------------

    def _make_subject(
        self, revision: Revision, facts: Facts | None, seed: str
    ) -> Subject:
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
            validator=self._validator,
            seed=seed,
            bound_s=self._options.answer_s,
            start_s=self._start_s,
            tls=self._tls,
        )
        secrets = {*headers.values(), *self._options.tokens.values()}
        subject.transcript.secrets = _secret_octets(secrets | self._secrets)
        return subject

    async def _run_cell(self, run: _CellRun) -> None:
        selected = [
            case
            for case in self._cases
            if run.cell.revision in case.revisions
            and _runs_over(case, self._transport)
            and self._is_due(run, case)
        ]
        last = [case for case in selected if case.start is Start.LAST]
        own = [c for c in selected if c.start in {Start.OWN, Start.RAW}]
        shared = [case for case in selected if case.start is Start.SHARED]
        if self._transport == "stdio":
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(self._run_in_sequence(run, shared))
                ids = {case.id for case in own}
                for case in own:
                    if case.follows not in ids:
                        followers = [c for c in own if c.follows == case.id]
                        tasks.create_task(
                            self._run_in_sequence(run, [case, *followers])
                        )
        else:
            await self._run_in_sequence(run, shared + own)
        await self._run_in_sequence(run, last)

    def _is_due(self, run: _CellRun, case: Case) -> bool:
        """Return whether a case is to run in the revision of a cell."""
        revisions = [
            name for name in self._supported_revisions if name in case.revisions
        ]
        if not case.is_once:
            if self._options.speed == "full" or case.level is not Level.ROBUST:
                return True
            is_modern = run.cell.revision in MODERN
            revisions = [name for name in revisions if (name in MODERN) is is_modern]
        return run.cell.revision == max(revisions)

    async def _run_in_sequence(self, run: _CellRun, cases: list[Case]) -> None:
        for case in cases:
            async with contextlib.AsyncExitStack() as stack:
                if case.start is not Start.SHARED:
                    await stack.enter_async_context(self._jobs)
                result = await self._run_within_budget(run, case)
            self.results.append(result)
            self._on_result(result)

    async def _run_within_budget(self, run: _CellRun, case: Case) -> Result:
        remaining = None if self._deadline is None else self._deadline - monotonic()
        with contextlib.suppress(TimeoutError):
            if remaining is None or remaining > 0:
                async with asyncio.timeout(remaining):
                    return await self._run_case(run, case)
        self.out_of_budget = True
        reason = "the time limit of the run was reached"
        return self._make_result(run, case, Verdict.UNRUN, "", reason)

    async def _run_case(self, run: _CellRun, case: Case) -> Result:
        began = monotonic()
        if run.unreachable_reason:
            return self._make_result(
                run, case, Verdict.UNRUN, "", run.unreachable_reason
            )
        missing = next(
            (need for need in case.needs if not _has_feature(run.facts, need)), None
        )
        if missing is not None:
            return self._make_result(
                run, case, Verdict.ABSENT, "", _describe_missing(missing)
            )
        try:
            subject = await self._connect(run, case)
        except (Finding, ConnectError) as error:
            # One process that starts too slowly on a busy machine does not end the run.
            reason = f"the connection failed: {self._describe_failure(error)}"
            run.failed_connections += 1
            if (
                case.start is Start.SHARED
                or run.failed_connections == _MAX_FAILED_CONNECTIONS
            ):
                run.unreachable_reason = reason
            return self._make_result(run, case, Verdict.UNRUN, "", reason)
        subject.begin_case(self._numbers[case.id], case.id)
        subject.bound_s = self._options.answer_s * self._timeout_factor(run, case)
        subject.random.seed(f"{self._options.seed} {case.id} {run.cell}")
        verdict = Verdict.UNRUN
        try:
            verdict, expected, actual = await self._evaluate(subject, case)
        finally:
            await subject.close_others()
            if verdict is Verdict.PASS and self._is_followed(case):
                run.reusable[case.id] = subject
            elif case.start in {Start.OWN, Start.RAW}:
                await subject.close()
        run.hangs = run.hangs + 1 if verdict is Verdict.HANG else 0
        if verdict in {Verdict.CRASH, Verdict.HANG} and subject is run.shared:
            await subject.close()
            run.shared, run.previous = None, subject
        result = self._make_result(run, case, verdict, expected, actual)
        is_reported = verdict is not Verdict.PASS and verdict is not Verdict.ABSENT
        if is_reported and case.start is Start.LAST and not subject.last_sent:
            again = self._repeat_command(run, case, subject.case_of(actual))
            result = attrs.evolve(result, again=again)
        return attrs.evolve(
            result,
            seconds=round(monotonic() - began, 4),
            expected=subject.transcript.masked_text(expected),
            actual=subject.transcript.masked_text(actual),
            sent=printable(subject.transcript.masked(subject.last_sent))
            if is_reported
            else "",
            octets=tuple(
                (round(o.at, 6), o.direction, o.stream, o.data)
                for o in subject.transcript.octets
            ),
        )

    def _is_followed(self, case: Case) -> bool:
        is_raw = case.start is Start.RAW and self._transport == "stdio"
        return is_raw and any(other.follows == case.id for other in self._cases)

    def _timeout_factor(self, run: _CellRun, case: Case) -> float:
        """Return the factor for `Options.answer_s` in a case."""
        if case.is_hostile:
            return _HOSTILE_TIMEOUT_FACTOR
        return _SHORT_TIMEOUT_FACTOR if run.hangs >= _MAX_HANGS else 1.0

    async def _connect(self, run: _CellRun, case: Case) -> Subject:
        if case.start in {Start.SHARED, Start.LAST} and run.shared is not None:
            return run.shared
        reused = run.reusable.pop(case.follows, None)
        subject = reused or self._make_subject(run.revision, run.facts, case.id)
        if case.capabilities is not None:
            subject.capabilities = case.capabilities
        try:
            if reused is None:
                await subject.open()
            if case.start is not Start.RAW:
                await subject.handshake()
        except BaseException:
            await subject.close()
            raise
        if case.start in {Start.SHARED, Start.LAST}:
            run.shared = subject
            if run.previous is not None:
                subject.continue_from(run.previous)
        return subject

    async def _evaluate(self, subject: Subject, case: Case) -> tuple[Verdict, str, str]:
        verdict, expected, actual = await _execute_case(subject, case)
        if case.start is Start.SHARED and verdict not in {Verdict.CRASH, Verdict.HANG}:
            # A crash or a hang after the answer is attributed to this case, too.
            try:
                await subject.barrier()
            except NoAnswer as finding:
                return Verdict.HANG, finding.expected, finding.actual
            except PeerDied as finding:
                return Verdict.CRASH, finding.expected, finding.actual
        return verdict, expected, actual

    def _make_result(
        self, run: _CellRun, case: Case, verdict: Verdict, expected: str, actual: str
    ) -> Result:
        return Result(
            case=case.id,
            cell=run.cell,
            level=case.level,
            verdict=verdict,
            title=case.title,
            source=cite(case.source, run.cell.revision),
            family=case.family,
            expected=expected,
            actual=actual,
            again=self._repeat_command(run, case),
        )

    def _repeat_command(self, run: _CellRun, case: Case, cause: str | None = "") -> str:
        """Return the command that reproduces a result.

        `cause`: an earlier case that led to the finding; ``None``: unknown, run all.
        """
        options = self._options
        words = ["mcpwire", "check"]
        # Without ``--full`` a robustness case runs in the newest revision only.
        needs_full = cause is None or run.uses_other_annotations
        words += ["--full"] * (needs_full and options.speed == "full")
        if cause is None:
            for name in options.only:
                words += ["--only", name]
            for name in options.skip:
                words += ["--skip", name]
        else:
            words += ["--only", case.id, *(["--only", cause] if cause else [])]
        for revision in self._needed_revisions(run):
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

    def _needed_revisions(self, run: _CellRun) -> list[str]:
        """Return the cell's revision and any revision that lends it annotations."""
        others = [self._supported_revisions[-1]] if run.uses_other_annotations else []
        return [run.cell.revision, *others]


async def _execute_case(subject: Subject, case: Case) -> tuple[Verdict, str, str]:
    """Run a case; return the verdict, the expected and the actual behaviour."""
    start_s = subject.start_s if case.start is Start.RAW else 0.0

    async def execute() -> None:
        async with TimeLimit(case.bound_s + start_s) as subject.limit:
            await case.run(subject)

    return await judge(case, execute())


async def judge(case: Case, work: Awaitable[None]) -> tuple[Verdict, str, str]:
    """Await a case; return the verdict, the expected and the actual behaviour."""
    try:
        await work
    except Finding as finding:
        if isinstance(finding, Absent):
            return Verdict.ABSENT, "", f"no {finding.expected}"
        verdict = _VERDICTS[type(finding)]
        if verdict is Verdict.FAIL and case.level is not Level.MUST:
            verdict = Verdict.WARN
        return verdict, finding.expected, finding.actual
    except TimeoutError:
        expected = f"the case takes at most {case.bound_s:g} s"
        return Verdict.HANG, expected, "it took longer"
    except Exception as error:  # noqa: BLE001 - a malformed answer must not end the run
        return Verdict.UNRUN, "", f"the case could not read an answer: {error!r}"
    return Verdict.PASS, "", ""


_VERDICTS: Final[dict[type[Finding], Verdict]] = {
    Broken: Verdict.FAIL,
    Lenient: Verdict.LENIENT,
    NoAnswer: Verdict.HANG,
    EndedWithoutAnswer: Verdict.FAIL,
    PeerDied: Verdict.CRASH,
    Unobserved: Verdict.UNRUN,
}


def _secret_octets(values: set[str]) -> tuple[bytes, ...]:
    """Return the octets that reports must mask, the longest first.

    In a header field such as ``Authorization: Bearer x`` the last word is the secret;
    in the query of a URL it may be percent-encoded.
    """
    words = {
        word
        for value in values
        for word in value.split()
        if len(word) >= _MIN_SECRET_LENGTH
    }
    secrets = {
        value for value in values if len(value) >= _MIN_SECRET_LENGTH // 2
    } | words
    secrets |= {quote(secret) for secret in secrets}
    return tuple(s.encode() for s in sorted(secrets, key=len, reverse=True))


def _runs_over(case: Case, transport: Transport) -> bool:
    is_general = {"stdio", "http"} <= set(case.transports)
    return transport in case.transports or (transport == "sse" and is_general)


def _has_feature(facts: Facts, need: str) -> bool:
    """Return whether the server has a feature that a case needs; see `Case.needs`."""
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


def _describe_missing(need: str) -> str:
    """Describe a missing feature and the option that may help; see `Case.needs`."""
    kind, _, name = need.partition(":")
    return {
        "role": f"no callable tool for the role {name!r} (--map {name}=TOOL)",
        "call": "no callable tool (--allow-calls GLOB allows more)",
        "token": f"no token {name!r} (--auth {name}=VARIABLE)",
        "extension": f"no extension {name!r}",
    }.get(kind, f"no {kind}")


async def _wait_until_listening(url: Url, timeout: float) -> None:
    """Wait until a server accepts connections, at most `timeout` seconds."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(timeout):
            while True:
                try:
                    _, writer = await asyncio.open_connection(url.host, url.port)
                except OSError:  # several errors in one if a name has two addresses
                    await asyncio.sleep(_CONNECT_INTERVAL_S)
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
    """Check a server and return a report.

    Args:
        target: A command, or a server at a URL; of an `Http` only the URL, headers
            and TLS settings are used.
        options: Options of the run.
        cases: The cases to select from; they may include your own.
        on_result: Called with each result as soon as its case ends.

    Raises:
        ConnectError: The server cannot be started or reached, or supports no revision.
        ValueError: An option has an unknown name, or `target` a proxy or a function.
        LocalProtocolError: jsonschema-rs is not installed.

    Safe to cancel: all started processes are terminated.
    """
    options = options or Options()
    location: Stdio | Url
    secrets: set[str] = set()
    if isinstance(target, Stdio):
        location, tls = target, None
    else:
        target = http = Http(target) if isinstance(target, str) else target
        if http.headers is not None and not isinstance(http.headers, Mapping):
            raise ValueError("headers must be a mapping here, got a function")
        if http.proxy is not None:
            raise ValueError(
                "a check connects to the server directly: it takes no proxy"
            )
        options = attrs.evolve(
            options, headers={**(http.headers or {}), **options.headers}
        )
        location = parse_url(http.url)
        secrets = {location.query or "", *secret_segments(http)}
        tls = ssl_context(http) if location.scheme == "https" else None
        await _wait_until_listening(location, options.wait_s)
    chosen = select(options, cases)
    checks = _Run(location, options, chosen, on_result, tls, secrets=secrets)
    began, started = monotonic(), datetime.now(UTC)
    await checks.execute()
    return make_report(
        str(target),
        options,
        checks.results,
        checks.server,
        started=started,
        seconds=round(monotonic() - began, 3),
        out_of_budget=checks.out_of_budget,
        notes=tuple(checks.notes),
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
    """Return a report of results, including data about the machine."""
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

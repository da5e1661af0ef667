"""Runner of the cases for clients.

::

    survey   for each revision: one run of the client against a correct server
    cases    one run each, against a server that the case changes; cases that only
             look at messages share the run of the survey
"""

from __future__ import annotations

import asyncio
import shlex
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire.check.case import Case, Finding, Start, Transport, Verdict, cite
from mcpwire.check.cases._http import STREAMABLE
from mcpwire.check.clients import CASES
from mcpwire.check.clients.subject import ClientFacts, ClientFunction, ClientSubject
from mcpwire.check.peer import mask_credentials
from mcpwire.check.results import Cell, Report, Result
from mcpwire.check.runner import (
    Options,
    judge,
    make_report,
    requested_revisions,
    select,
)
from mcpwire.check.subject import META
from mcpwire.errors import ConnectError
from mcpwire.versions import LATEST_SESSION

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from mcpwire.versions import Revision

_FIRST_RUN_S: Final = 60.0
"""Time limit of the first runs: `npx -y` and `uvx` download a client first."""
_RUN_FACTOR: Final = 10
"""Time limit of a case as a multiple of the first run, besides two answers."""


@attrs.frozen
class _CellRun:
    cell: Cell
    revision: Revision
    facts: ClientFacts
    run_s: float


class _Run:
    """One run of the selected cases against one client."""

    def __init__(
        self,
        client: Sequence[str] | ClientFunction,
        transport: Transport,
        options: Options,
        cases: list[Case],
        on_result: Callable[[Result], object],
    ) -> None:
        self._client = client
        self._transport = transport
        self._options = options
        self._cases = cases
        self._on_result = on_result
        self._jobs = asyncio.Semaphore(options.jobs)
        self._run_s = _FIRST_RUN_S
        budget = options.budget_s
        self._deadline = None if budget is None else monotonic() + budget
        self.results: list[Result] = []
        self.notes: list[str] = []
        self.info: dict[str, str] = {}
        self.out_of_budget = False

    async def execute(self) -> None:
        revisions = requested_revisions(self._options)
        if self._transport == "http":  # it is newer than the first revision
            revisions = [r for r in revisions if r.name in STREAMABLE]
        # The first run alone: a client that does not connect is found at once.
        first, *others = sorted(revisions, key=lambda r: r is not LATEST_SESSION)
        try:
            async with asyncio.timeout(self._remaining_s):
                probes = [await self._survey(first)]
                probes += await self._gather(self._survey(each) for each in others)
        except TimeoutError:
            budget = self._options.budget_s
            raise ConnectError(
                f"the first runs of the client took longer than {budget:g} s"
            ) from None
        surveyed = [probe for probe in probes if isinstance(probe, _CellRun)]
        cells = sorted(surveyed, key=lambda each: each.revision)
        self.notes += [probe for probe in probes if isinstance(probe, str)]
        if not cells:
            reason = self.notes[-1]
            raise ConnectError(f"the client completed no handshake: {reason}")
        if self._options.speed == "quick" and not self._options.revisions:
            newest = {cell.revision.era: cell for cell in cells}
            cells = list(newest.values())
        info = cells[-1].facts.info
        self.info = {k: str(info[k]) for k in ("name", "version") if k in info}
        runs = [(cell, case) for cell in cells for case in self._chosen(cell, cells)]
        results = await self._gather(self._run_case(*each) for each in runs)
        self.results = results

    @property
    def _remaining_s(self) -> float | None:
        return None if self._deadline is None else self._deadline - monotonic()

    async def _gather(self, works: Iterable[Any]) -> list[Any]:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(work) for work in works]
        return [task.result() for task in tasks]

    async def _survey(self, revision: Revision) -> _CellRun | str:
        """Return the cell of a revision, or the reason why there is none."""
        subject = self._make_subject(revision, f"survey {revision}")
        subject.run_s = self._run_s
        async with self._jobs:
            began = monotonic()
            try:
                await subject.run()
            except Finding as finding:
                if not _is_used(subject):
                    return f"{revision}: {finding.actual}"
            seconds = monotonic() - began
        if not subject.messages:
            others = [f"{each.method} {each.path}" for each in subject.requests[:3]]
            sent = f"no message but {', '.join(others)}" if others else "nothing"
            raise ConnectError(
                f"the client sent {sent} to its server; {subject.ending}"
            )
        self._run_s = 2 * self._options.answer_s + _RUN_FACTOR * seconds
        if subject.ending is not None and subject.ending.code is None:
            self._run_s = min(self._run_s, _FIRST_RUN_S)  # it may never be idle
        if not _is_used(subject):
            sent = ", ".join(dict.fromkeys(m.method or "?" for m in subject.messages))
            return f"{revision}: the client sent {sent}; {subject.ending}"
        return _CellRun(
            Cell("client", self._transport, revision.name),
            revision,
            _read_facts(subject),
            self._run_s,
        )

    def _make_subject(
        self, revision: Revision, seed: str, facts: ClientFacts | None = None
    ) -> ClientSubject:
        return ClientSubject(
            self._client,
            revision,
            self._transport,
            facts=facts,
            seed=f"{self._options.seed} {seed}",
            bound_s=self._options.answer_s,
        )

    def _chosen(self, cell: _CellRun, cells: list[_CellRun]) -> list[Case]:
        """Return the cases of a cell."""
        chosen = []
        for case in self._cases:
            used = [c.revision.name for c in cells if c.revision.name in case.revisions]
            if case.is_once:
                used = used[-1:]
            if self._transport in case.transports and cell.revision.name in used:
                chosen.append(case)
        return chosen

    async def _run_case(self, cell: _CellRun, case: Case) -> Result:
        async with self._jobs:
            try:
                async with asyncio.timeout(self._remaining_s):
                    result = await self._judge(cell, case)
            except TimeoutError:
                self.out_of_budget = True
                reason = "the time limit of the run was reached"
                result = self._make_result(cell, case, Verdict.UNRUN, "", reason)
        self._on_result(result)
        return result

    async def _judge(self, cell: _CellRun, case: Case) -> Result:
        began = monotonic()
        for need in case.needs:
            if not cell.facts.declares(need):
                reason = _describe_missing(need)
                return self._make_result(cell, case, Verdict.ABSENT, "", reason)
        if case.start is Start.SHARED:
            subject = cell.facts.run
            assert subject is not None, "the survey made it"
        else:
            subject = self._make_subject(cell.revision, f"{case.id} {cell.cell}")
            subject.run_s = cell.run_s
        subject.facts = cell.facts
        verdict, expected, actual = await judge(case, case.run(subject))
        result = self._make_result(cell, case, verdict, expected, actual)
        is_reported = verdict not in {Verdict.PASS, Verdict.ABSENT}
        return attrs.evolve(
            result,
            seconds=round(monotonic() - began, 4),
            sent=case.sends if is_reported else "",
            octets=tuple(
                (round(o.at, 6), o.direction, o.stream, mask_credentials(o.data))
                for o in subject.transcript.octets
            ),
        )

    def _make_result(
        self, cell: _CellRun, case: Case, verdict: Verdict, expected: str, actual: str
    ) -> Result:
        return Result(
            case=case.id,
            cell=cell.cell,
            level=case.level,
            verdict=verdict,
            title=case.title,
            source=cite(case.source, cell.revision.name),
            family=case.family,
            expected=expected,
            actual=actual,
            again=self._repeat_command(cell, case),
        )

    def _repeat_command(self, cell: _CellRun, case: Case) -> str:
        """Return the command that repeats a result; "" for a coroutine function."""
        if callable(self._client):
            return ""
        words = ["mcpwire", "check", "client", "--only", case.id]
        words += ["--http"] if self._transport == "http" else []
        words += ["--revision", cell.revision.name, "--seed", str(self._options.seed)]
        return shlex.join([*words, *self._options.again, "--", *self._client])


def _is_used(subject: ClientSubject) -> bool:
    """Return whether the client completed the handshake of the server's revision."""
    if not subject.is_stateless:
        return bool(subject.sent("notifications/initialized"))
    version = META + "protocolVersion"
    metas = [m.params.get("_meta") for m in subject.messages if m.method]
    return any(
        isinstance(meta, dict) and meta.get(version) == subject.revision.name
        for meta in metas
    )


def _read_facts(subject: ClientSubject) -> ClientFacts:
    facts = ClientFacts(
        sent=subject.operations(),
        ending=subject.ending,
        pause_s=subject.pause_s,
        run=subject,
    )
    for message in subject.messages:
        params = message.params
        meta = params.get("_meta") if subject.is_stateless else None
        if isinstance(meta, dict):
            params = {
                "capabilities": meta.get(META + "clientCapabilities"),
                "clientInfo": meta.get(META + "clientInfo"),
            }
        elif message.method != "initialize":
            continue
        if isinstance(params.get("capabilities"), dict):
            facts.capabilities = params["capabilities"]
        if isinstance(params.get("clientInfo"), dict):
            facts.info = params["clientInfo"]
    return facts


def _describe_missing(need: str) -> str:
    kind, is_sent, method = need.partition(":")
    return f"the client sends no {method}" if is_sent else f"no capability {kind}"


async def run_client(
    client: Sequence[str] | ClientFunction,
    options: Options | None = None,
    *,
    http: bool = False,
    cases: Iterable[Case] = CASES,
    on_result: Callable[[Result], object] = lambda _: None,
) -> Report:
    """Check a client and return a report.

    The client connects to the server that it is given, sends some requests, and ends.

    Args:
        client: The client's program and arguments, in which ``{target}`` is replaced by
            the command line of the server, quoted for a shell, or its URL; without it,
            their words are appended. Or a coroutine function that gets a `Stdio` or a
            URL, and raises if a request fails.
        options: Options of the run; only those that do not concern servers are used.
        http: Whether the server is at a URL and not a process.
        cases: The cases to select from.
        on_result: Called with each result as soon as its case ends.

    Raises:
        ConnectError: The client cannot be started, or completed no handshake.
        ValueError: An option has an unknown name.
        LocalProtocolError: jsonschema-rs is not installed.

    Safe to cancel: the client and its processes are ended.
    """
    options = options or Options()
    began, started = monotonic(), datetime.now(UTC)
    chosen = select(options, cases)
    transport: Transport = "http" if http else "stdio"
    checks = _Run(client, transport, options, chosen, on_result)
    try:
        await checks.execute()
    except* ConnectError as errors:
        raise errors.exceptions[0] from None
    name = getattr(client, "__name__", "") if callable(client) else shlex.join(client)
    return make_report(
        name,
        options,
        checks.results,
        checks.info,
        started=started,
        seconds=round(monotonic() - began, 3),
        out_of_budget=checks.out_of_budget,
        notes=tuple(checks.notes),
    )

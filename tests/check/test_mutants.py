"""Each seeded fault is found by its own case and by no unrelated case."""

import asyncio
import subprocess
import sys

import attrs
import guarded_subject
import mutants
import pytest
from mutants import MUTANTS, command
from unmeasured import unmeasured

from mcpwire.check import Options, Verdict, run
from mcpwire.check.case import Level, Start
from mcpwire.check.cases import CASES, cancellation, framing, hygiene, streams
from mcpwire.transports.targets import Stdio

mutants.load()
BAD = {Verdict.FAIL, Verdict.WARN, Verdict.CRASH, Verdict.HANG, Verdict.LENIENT}
SHARED = [
    case
    for case in CASES
    if case.start in {Start.SHARED, Start.LAST}
    and case.is_quick
    and not case.is_hostile
    and case.family != "concurrency"  # they are slow, and find no other fault
]


PROCESS = {c.id for c in hygiene.FAMILY.cases if not c.id.startswith("TR-STDIO-02")}
"""Cases that examine the process: it is started from its file."""


LAST = {
    case.id
    for case in CASES
    if case.start is Start.LAST and case.family != "schema" and case.id not in PROCESS
}
"""Cases that examine the messages of all others."""


SILENT = {
    "100 Continue comes late",
    "SIGTERM is ignored",
    "a DELETE leaves the stream open",
    "a call keeps the process",
    "a call of an ended session has no end",
    "a call waits for ever after an error",
    "a call waits for ever after cancel",
    "a call waits for ever after decline",
    "a cancellation compares ids as texts",
    "a cancellation takes all calls along",
    "a client that dies is not missed",
    "a giant body is waited for",
    "a message is shorter than a megabyte",
    "a second GET fails",
    "a stateless server does not see the end of its input",
    "a stream opens once in a session",
    "behind the end of a line in parts a buffer is lost",
    "line ends in texts are not escaped",
    "more than 18 requests wait",
    "of a buffer 256 lines are read",
    "of a buffer 64 lines are read",
    "prompts/list_changed are not told",
    "resources/list_changed are not told",
    "single octets are lost",
    "streams stay open after the answer at 2025-11-25",
    "streams stay open after the answer at 2026-07-28",
    "the end of the input is not seen",
    "the rest of a buffer is lost",
    "tools/list_changed are not told",
}
"""Faults by which something never arrives: the timeout for them is short."""
SHORT_S = 1.0
LONG_ENOUGH_S = 0.3  # for a call that is unaffected by the fault
BOUNDS = (
    (cancellation, "TWELVE_CALLS_TIMEOUT_S"),
    (framing, "LARGE_TIMEOUT_S"),
    (streams, "REOPEN_TIMEOUT_S"),
)


@pytest.fixture
def options(pytestconfig, monkeypatch):
    """Make the options that run a mutant's cases, and the schemas of all messages.

    With `--all-grounds`, each case that shares a connection runs too, which takes a
    second or two per mutant; a fault over HTTP is checked against HTTP cases only.
    """
    runs_all = pytestconfig.getoption("--all-grounds")
    schemas = {case.id for case in CASES if case.family == "schema"}

    def make(mutant):
        runs_shared = runs_all or mutant.cases[0] in LAST
        is_silent = mutant.name in SILENT
        if is_silent:
            monkeypatch.setattr(hygiene, "EXIT_TIMEOUT_S", SHORT_S)
        if runs_shared:
            monkeypatch.setattr(cancellation, "SLOW_CALL_S", LONG_ENOUGH_S)
        elif is_silent:
            for module, name in BOUNDS:
                monkeypatch.setattr(module, name, SHORT_S)
        chosen = shared_with(mutant) if runs_shared else set()
        return Options(
            revisions=(mutant.revision,),
            only=tuple(sorted(chosen | schemas | set(mutant.cases))),
            speed="full",
            answer_s=answer_s(is_silent, runs_shared=runs_shared, runs_all=runs_all),
            allow_calls=("*",),
        )

    return make


def answer_s(is_silent, *, runs_shared, runs_all):
    """Return the timeout of one answer: unaffected cases must not time out.

    With `--all-grounds` a hundred cases run per fault, on a possibly busy machine.
    """
    if is_silent:
        return 2.0 if runs_shared else SHORT_S
    return 10.0 if runs_all else 5.0


def shared_with(mutant):
    """Return the cases that a fault must not affect."""
    is_http = mutant.transport == "http"
    return {
        case.id
        for case in SHARED
        if mutant.revision in case.revisions
        and not (is_http and "stdio" in case.transports)
    }


def assert_found(report, mutant):
    found = {r.case for r in report.results if r.verdict in BAD}
    assert mutant.cases[0] in found, f"found only {sorted(found)}"
    assert found <= set(mutant.cases), sorted(found - set(mutant.cases))


STDIO = [each for each in MUTANTS.values() if each.transport == "stdio"]
OVER_HTTP = [each for each in MUTANTS.values() if each.transport == "http"]
HTTP = [each for each in OVER_HTTP if not each.is_guarded]
GUARDED = [each for each in OVER_HTTP if each.is_guarded]


@pytest.mark.parametrize("mutant", STDIO, ids=lambda each: each.name)
def test_stdio_fault_is_found_by_its_case(mutant, options, mutated):
    is_of_process = mutant.cases[0] in PROCESS
    words = (command if is_of_process else mutated)(mutant.name)
    report = asyncio.run(run(Stdio(words[0], words[1:]), options(mutant)))
    assert_found(report, mutant)


class Served:
    """A child process that serves over HTTP with one mutant after another."""

    def __init__(self, *words):
        self.words = words

    def __enter__(self):
        command = [sys.executable, mutants.__file__, "--http", *self.words]
        self.child = subprocess.Popen(
            command,
            env=unmeasured(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.url = guarded_subject.url_of(int(self.child.stdout.readline()))
        return self

    def __exit__(self, *_):
        self.child.kill()
        self.child.communicate()

    def check(self, mutant, options):
        """Run the cases against a mutant."""
        self.child.stdin.write(f"{mutant.name}\n")
        self.child.stdin.flush()
        assert self.child.stdout.readline() == "ready\n"
        return asyncio.run(run(self.url + mutant.below, options))


@pytest.fixture(scope="module")
def served():
    """Serve our demo server over HTTP."""
    with Served() as serving:
        yield serving


@pytest.fixture(scope="module")
def guarded_server():
    """Serve a server that requires tokens."""
    with Served("--guarded") as serving:
        yield serving


@pytest.mark.parametrize("mutant", HTTP, ids=lambda each: each.name)
def test_http_fault_is_found_by_its_case(mutant, served, options):
    assert_found(served.check(mutant, options(mutant)), mutant)


@pytest.mark.parametrize("mutant", GUARDED, ids=lambda each: each.name)
def test_authorization_fault_is_found_by_its_case(mutant, guarded_server, options):
    tokens = guarded_subject.tokens(guarded_server.url)
    assert_found(
        guarded_server.check(mutant, attrs.evolve(options(mutant), tokens=tokens)),
        mutant,
    )


def test_silent_faults_exist():
    assert SILENT - MUTANTS.keys() == set()


def test_each_case_has_a_unique_id_and_complete_texts():
    assert len({case.id for case in CASES}) == len(CASES) >= 300
    assert len(MUTANTS) >= 150
    assert [c.id for c in CASES if not (c.sends and c.expects and c.why)] == []
    levels = {c.id for c in CASES if not c.source and c.level is not Level.ROBUST}
    assert levels == set()


def test_unknown_method_refused_in_plain_text_counts_once(served):
    mutant = MUTANTS["an unknown method is refused in plain text"]
    cases = ("RPC-07.e", "RPC-08.a", "RPC-31.a")
    report = served.check(mutant, Options(revisions=(mutant.revision,), only=cases))
    found = {result.case: result.verdict.value for result in report.results}
    assert found == {"RPC-07.e": "pass", "RPC-08.a": "absent", "RPC-31.a": "fail"}

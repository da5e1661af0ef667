"""Each seeded fault is found by its own case and by no unrelated one."""

import asyncio
import subprocess
import sys

import attrs
import guarded_subject
import mutants
import pytest
from mutants import MUTANTS, command

from mcpwire.check import Options, Verdict, run
from mcpwire.check.case import Level, Start
from mcpwire.check.cases import CASES
from mcpwire.transports.targets import Stdio

mutants.load()
BAD = {Verdict.FAIL, Verdict.WARN, Verdict.CRASH, Verdict.HANG, Verdict.LENIENT}
SHARED = [
    case
    for case in CASES
    if case.start in {Start.SHARED, Start.LAST}
    and case.is_quick
    and not case.is_hostile
    and case.family != "concurrency"  # they take long, and no other fault is theirs
]


LAST = {c.id for c in CASES if c.start is Start.LAST and c.family != "schema"}
"""Cases that look at what all others have left."""


@pytest.fixture(scope="session")
def options(pytestconfig):
    """Make the options that run a mutant's cases, and the schemas of all messages.

    On all grounds, each case that shares a connection runs too, which takes a second or
    two for each mutant; a fault over HTTP stands against those of HTTP alone.
    """
    runs_all = pytestconfig.getoption("--all-grounds")

    def make(mutant):
        is_http = mutant.transport == "http"
        chosen = {
            case.id
            for case in SHARED
            if mutant.revision in case.revisions
            and not (is_http and "stdio" in case.transports)
        }
        runs_shared = runs_all or mutant.cases[0] in LAST
        schemas = {case.id for case in CASES if case.family == "schema"}
        chosen = (chosen if runs_shared else set()) | schemas | set(mutant.cases)
        return Options(
            revisions=(mutant.revision,),
            only=tuple(sorted(chosen)),
            speed="full",
            answer_s=2.0,
            allow_calls=("*",),
        )

    return make


def assert_found(report, mutant):
    found = {r.case for r in report.results if r.verdict in BAD}
    assert mutant.cases[0] in found, f"found only {sorted(found)}"
    assert found <= set(mutant.cases), sorted(found - set(mutant.cases))


STDIO = [each for each in MUTANTS.values() if each.transport == "stdio"]
OVER_HTTP = [each for each in MUTANTS.values() if each.transport == "http"]
HTTP = [each for each in OVER_HTTP if not each.is_guarded]
GUARDED = [each for each in OVER_HTTP if each.is_guarded]


@pytest.mark.parametrize("mutant", STDIO, ids=lambda each: each.name)
def test_a_fault_over_stdio_is_found_by_its_case(mutant, options):
    words = command(mutant.name)
    report = asyncio.run(run(Stdio(words[0], words[1:]), options(mutant)))
    assert_found(report, mutant)


class Served:
    """A process that serves over HTTP with one mutant after another."""

    def __init__(self, *words):
        self.words = words

    def __enter__(self):
        command = [sys.executable, mutants.__file__, "--http", *self.words]
        self.child = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
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
    """Serve one that wants tokens."""
    with Served("--guarded") as serving:
        yield serving


@pytest.mark.parametrize("mutant", HTTP, ids=lambda each: each.name)
def test_a_fault_over_http_is_found_by_its_case(mutant, served, options):
    assert_found(served.check(mutant, options(mutant)), mutant)


@pytest.mark.parametrize("mutant", GUARDED, ids=lambda each: each.name)
def test_a_fault_of_a_server_with_tokens_is_found_by_its_case(
    mutant, guarded_server, options
):
    tokens = guarded_subject.tokens(guarded_server.url)
    assert_found(
        guarded_server.check(mutant, attrs.evolve(options(mutant), tokens=tokens)),
        mutant,
    )


def test_each_case_has_an_id_of_its_own_and_says_what_it_sends():
    assert len({case.id for case in CASES}) == len(CASES)
    assert [c.id for c in CASES if not (c.sends and c.expects and c.why)] == []
    levels = {c.id for c in CASES if not c.source and c.level is not Level.ROBUST}
    assert levels == set()


def test_that_unknown_methods_get_no_message_counts_once(served):
    mutant = MUTANTS["an unknown method is refused in plain text"]
    cases = ("RPC-07.e", "RPC-08.a", "RPC-31.a")
    report = served.check(mutant, Options(revisions=(mutant.revision,), only=cases))
    found = {result.case: result.verdict.value for result in report.results}
    assert found == {"RPC-07.e": "pass", "RPC-08.a": "absent", "RPC-31.a": "fail"}

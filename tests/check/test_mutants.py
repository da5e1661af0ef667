"""Each seeded fault is found by its own case and by no unrelated one."""

import asyncio
import threading

import mutants
import pytest
import server as subject
import uvicorn
from mutants import MUTANTS, command

from mcpwire.check import Options, Verdict, run
from mcpwire.check.case import Level, Start, find_duplicates
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
]


def options(mutant):
    """Return options that run the mutant's cases, and the quick ones that share."""
    chosen = {case.id for case in SHARED if mutant.revision in case.revisions}
    chosen |= set(mutant.cases)
    return Options(
        revisions=(mutant.revision,),
        only=tuple(sorted(chosen)),
        speed="full",
        answer_s=1.0,
        allow_calls=("*",),
    )


def assert_found(report, mutant):
    found = {r.case for r in report.results if r.verdict in BAD}
    assert mutant.cases[0] in found, f"found only {sorted(found)}"
    assert found <= set(mutant.cases), sorted(found - set(mutant.cases))


STDIO = [each for each in MUTANTS.values() if each.transport == "stdio"]
HTTP = [each for each in MUTANTS.values() if each.transport == "http"]


@pytest.mark.parametrize("mutant", STDIO, ids=lambda each: each.name)
def test_a_fault_over_stdio_is_found_by_its_case(mutant):
    words = command(mutant.name)
    report = asyncio.run(run(Stdio(words[0], words[1:]), options(mutant)))
    assert_found(report, mutant)


@pytest.fixture(scope="module")
def served():
    """Serve our demo server over HTTP; yields its URL and a list for the mutant."""
    current = [None]
    inner = subject.server.asgi()
    app = mutants.app(inner, lambda: current[0])
    config = uvicorn.Config(app, port=0, log_level="warning", lifespan="on")
    serving = uvicorn.Server(config)
    thread = threading.Thread(target=serving.run)
    thread.start()
    while not serving.started:
        threading.Event().wait(0.01)
    port = serving.servers[0].sockets[0].getsockname()[1]
    yield f"http://127.0.0.1:{port}/mcp", current
    serving.should_exit = True
    thread.join()


@pytest.mark.parametrize("mutant", HTTP, ids=lambda each: each.name)
def test_a_fault_over_http_is_found_by_its_case(mutant, served):
    url, current = served
    current[0] = mutant
    report = asyncio.run(run(url, options(mutant)))
    assert_found(report, mutant)


def test_each_case_has_an_id_of_its_own_and_says_what_it_sends():
    assert find_duplicates(CASES) == set()
    assert [c.id for c in CASES if not (c.sends and c.expects and c.why)] == []
    levels = {c.id for c in CASES if not c.source and c.level is not Level.ROBUST}
    assert levels == set()

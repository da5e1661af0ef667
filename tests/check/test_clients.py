"""Checks of clients: mcpwire's own client passes, each seeded fault is found."""

import client_mutants
import pytest
from client_mutants import MUTANTS, make_client
from client_mutants_authorization import log_in_and_use

from mcpwire.check import Options, Verdict
from mcpwire.check.case import since
from mcpwire.check.clients import CASES
from mcpwire.check.clients.runner import run_client

pytestmark = pytest.mark.unchecked_wire(
    "clients with seeded faults, and broken servers"
)
client_mutants.load()
BAD = {Verdict.FAIL, Verdict.WARN, Verdict.CRASH, Verdict.HANG, Verdict.LENIENT}
GOOD = {Verdict.PASS, Verdict.ABSENT}


@pytest.mark.parametrize("http", [False, True], ids=["stdio", "http"])
async def test_own_client_passes_every_case(http):
    report = await run_client(make_client(), Options(speed="full"), http=http)
    assert [r for r in report.results if r.verdict not in GOOD] == []
    assert {score.points for score in report.scores().values()} == {100}


@pytest.mark.timeout(120)  # some 50 runs
@pytest.mark.parametrize("revision", since("2025-03-26"))
async def test_own_client_passes_every_case_of_authorization(revision):
    options = Options(only=("authorization",), revisions=(revision,))
    report = await run_client(log_in_and_use, options, http=True)
    assert [r for r in report.results if r.verdict not in GOOD] == []
    absent = {r.case for r in report.results if r.verdict is Verdict.ABSENT}
    assert absent <= {"C-REG-03.a"}  # it has no metadata document


@pytest.mark.parametrize(
    ("fault", "transport"),
    [(m, t) for m in MUTANTS for t in m.transports],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
async def test_a_fault_is_found_by_its_case(fault, transport):
    options = Options(only=(fault.case,), revisions=fault.revisions)
    report = await run_client(fault.make(), options, http=transport == "http")
    assert {result.verdict for result in report.results} & BAD


def test_each_case_has_a_fault():
    found = {mutant.case for mutant in MUTANTS}
    assert [case.id for case in CASES if case.id not in found] == []

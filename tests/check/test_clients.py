"""Checks of clients: mcpwire's own client passes, each seeded fault is found."""

import client_mutants
import pytest
from client_mutants import MUTANTS, make_client

from mcpwire.check import Options, Verdict
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


@pytest.mark.parametrize(
    ("fault", "transport"),
    [(m, t) for m in MUTANTS for t in m.transports],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
async def test_a_fault_is_found_by_its_case(fault, transport):
    report = await run_client(
        fault.make(), Options(only=(fault.case,)), http=transport == "http"
    )
    assert {result.verdict for result in report.results} & BAD


@pytest.mark.parametrize(
    ("fault", "transport"),
    [(m, t) for m in MUTANTS if m.use and m.hook for t in m.transports],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
async def test_the_same_use_without_the_fault_passes(fault, transport):
    report = await run_client(
        make_client(use=fault.use),
        Options(only=(fault.case,)),
        http=transport == "http",
    )
    assert {result.verdict for result in report.results} <= GOOD


def test_each_case_has_a_fault():
    found = {mutant.case for mutant in MUTANTS}
    assert [case.id for case in CASES if case.id not in found] == []

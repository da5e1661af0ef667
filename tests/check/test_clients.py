"""Checks of clients: mcpwire's own client passes, each seeded fault is found."""

import asyncio
import contextlib
import os
import shlex
import signal
import sys
from urllib.parse import urlsplit

import client_mutants
import httpx
import pytest
from client_mutants import ENDING, MUTANTS, RELATED, make_client, use_all
from client_mutants_authorization import (
    WELL_KNOWN,
    LoginMutant,
    LoginWire,
    drop,
    log_in_and_use,
    query,
)
from client_mutants_messages import use_two_at_once

import mcpwire
from mcpwire.check import Options, Verdict
from mcpwire.check.case import NoAnswer, Start, since
from mcpwire.check.clients import CASES, subject
from mcpwire.check.clients.http import HttpEndpoint
from mcpwire.check.clients.items import RESULTS
from mcpwire.check.clients.runner import run_client
from mcpwire.check.clients.subject import ClientSubject, Ending
from mcpwire.versions import LATEST, LATEST_SESSION

pytestmark = pytest.mark.unchecked_wire(
    "clients with seeded faults, and broken servers"
)
client_mutants.load()
BAD = {Verdict.FAIL, Verdict.WARN, Verdict.CRASH, Verdict.HANG, Verdict.LENIENT}
NEWEST = (LATEST_SESSION.name, LATEST.name)
GOOD = {Verdict.PASS, Verdict.ABSENT}


@pytest.mark.timeout(120)  # some 300 runs
@pytest.mark.parametrize("http", [False, True], ids=["stdio", "http"])
async def test_own_client_passes_every_case(http, pytestconfig):
    everything = pytestconfig.getoption("--all-grounds")
    options = Options(speed="full", revisions=() if everything else NEWEST)
    report = await run_client(make_client(), options, http=http)
    assert [r for r in report.results if r.verdict not in GOOD] == []
    assert {score.points for score in report.scores().values()} == {100}


async def test_own_client_passes_with_two_calls_at_once():
    only = ("C-A15.a", "C-F11.a", "C-RPC-06.a", "C-PROG-01.a", "C-PROG-01.b")
    client = make_client(use=use_two_at_once)
    report = await run_client(client, Options(only=only, speed="full"))
    assert {result.case for result in report.results} == {*only}
    assert {result.verdict for result in report.results} == {Verdict.PASS}


def _offer_http2(request):
    request.headers.update({"Connection": "Upgrade", "Upgrade": "h2c"})


async def test_client_that_offers_http2_is_checked():
    options = Options(only=("C-F24.a", "C-LHTTP-02.a"), speed="full")
    report = await run_client(make_client(requests=_offer_http2), options, http=True)
    assert {result.verdict for result in report.results} == {Verdict.PASS}


async def _probe_and_use_twice(url):
    async with httpx.AsyncClient() as probe:
        for path in ("", "/../.well-known/oauth-protected-resource/mcp"):
            await probe.get(url + path, headers={"Accept": "application/json"})
    await use_all(url)
    await use_all(url)


async def test_client_that_looks_for_authorization_and_connects_twice_passes():
    only = ("C-LHTTP-14", "C-LHTTP-24", "C-LHTTP-29", "C-F29", "C-D71", "C-D72")
    options = Options(only=only, revisions=NEWEST)
    report = await run_client(_probe_and_use_twice, options, http=True)
    assert [r for r in report.results if r.verdict not in GOOD] == []


async def test_a_case_does_not_change_the_results_of_others():
    only = ("C-LHTTP-11.a", "C-F30.b")
    options = Options(only=only, speed="full", revisions=NEWEST)
    await run_client(make_client(), options, http=True)
    assert "check/" not in str(RESULTS)


async def _stay_running(target):
    async with mcpwire.Client(target) as client:
        await client.list_tools()
        await asyncio.sleep(1.2)  # the subject: a pause above the least idle time
        await client.call_tool("echo", {"text": "hi"})
        while True:
            await asyncio.sleep(0.2)  # the subject: pings for ever
            await client.ping()


@pytest.mark.grounds(1, "http")
@pytest.mark.parametrize("http", [False, True], ids=["stdio", "http"])
async def test_client_that_stays_running_may_pause_and_sends_pings(http):
    only = ("C-LIFE-11.a", "C-RPC-33.a")
    revisions = (LATEST_SESSION.name,)
    options = Options(only=only, revisions=revisions, answer_s=2.0)
    async with asyncio.timeout(20):
        report = await run_client(_stay_running, options, http=http)
    assert {result.verdict for result in report.results} == {Verdict.PASS}


async def _poll(target):
    async with mcpwire.Client(target) as client:
        while True:
            await client.list_tools()
            await client.call_tool("echo", {"text": "hi"})
            await asyncio.sleep(0.02)  # the subject: the same requests for ever


async def test_client_that_polls_for_ever_is_judged_when_it_only_repeats(monkeypatch):
    monkeypatch.setattr(subject, "_FIRST_IDLE_S", 0.3)
    only = ("C-LIFE-11.a", "C-RPC-33.a", "C-A13.b", "C-RPC-07.a")
    options = Options(only=only, revisions=(LATEST_SESSION.name,), answer_s=0.3)
    async with asyncio.timeout(20):  # each run could take up to a minute
        report = await run_client(_poll, options)
    assert {result.verdict for result in report.results} == {Verdict.PASS}


async def test_runs_of_one_job_do_not_overlap():
    running = 0

    async def client(target):
        nonlocal running
        running += 1
        assert running == 1
        await make_client()(target)
        running -= 1

    options = Options(only=("C-RPC-07", "C-PING-01"), jobs=1, revisions=NEWEST)
    report = await run_client(client, options)
    assert {result.verdict for result in report.results} == {Verdict.PASS}


async def test_client_function_that_ignores_its_cancellation_ends_the_case(monkeypatch):
    monkeypatch.setattr(subject, "_CANCEL_GRACE_S", 0.1)
    may_end = asyncio.Event()

    async def client(target):
        while not may_end.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await may_end.wait()

    run = ClientSubject(client, LATEST_SESSION, "stdio", run_s=0.1)
    try:
        with pytest.raises(NoAnswer, match="ends when it is cancelled"):
            await run.run()
    finally:
        may_end.set()


async def test_body_that_is_too_large_ends_the_connection(monkeypatch):
    module = sys.modules[HttpEndpoint.__module__]
    monkeypatch.setattr(module, "MAX_MESSAGE_BYTES", 1_000)

    async def client(url):
        async with httpx.AsyncClient() as connection:
            with pytest.raises(httpx.RemoteProtocolError):
                await connection.post(url, content=b"x" * 1_001)

    run = ClientSubject(client, LATEST_SESSION, "http")
    assert (await run.run()).code == 0
    assert run.requests == []


@pytest.mark.timeout(120)  # some 50 runs
@pytest.mark.grounds(1, "revision")
@pytest.mark.parametrize("revision", since("2025-03-26"))
async def test_own_client_passes_every_case_of_authorization(revision):
    options = Options(only=("authorization",), revisions=(revision,))
    report = await run_client(log_in_and_use, options, http=True)
    assert [r for r in report.results if r.verdict not in GOOD] == []
    absent = {r.case for r in report.results if r.verdict is Verdict.ABSENT}
    assert absent <= {"C-REG-03.a"}  # it has no metadata document


async def stop_at_echo(target):
    """Read pages until one has the tool."""
    cursor = {}
    async with mcpwire.Client(target) as client:
        while True:
            page = await client.request("tools/list", cursor)
            if "echo" in [tool["name"] for tool in page["tools"]]:
                return
            cursor = {"cursor": page["nextCursor"]}


async def stop_at_the_second_page(target):
    """Read two pages at most."""
    async with mcpwire.Client(target) as client:
        page = await client.request("tools/list")
        if "nextCursor" in page:
            await client.request("tools/list", {"cursor": page["nextCursor"]})


async def log_in_twice(where):
    """Have two sessions, each with a login of its own."""
    await log_in_and_use(where)
    await log_in_and_use(where)


async def log_in_without_metadata(where):
    """Log in as clients of 2025-03-26 do."""
    await LoginWire(answer=drop(f"{WELL_KNOWN}/mcp")).use(where)


async def log_in_with_metadata_document(where):
    """Use the URL of a client id metadata document as the client id."""
    await LoginWire(url=query(client_id="https://example.com/client")).use(where)


@pytest.mark.parametrize(
    ("client", "case"),
    [
        (stop_at_echo, "C-PAGE-05.a"),
        (stop_at_echo, "C-PAGE-02.a"),
        (stop_at_the_second_page, "C-PAGE-02.a"),
        (log_in_twice, "C-FLOW-20.a"),
        (log_in_without_metadata, "C-AUTH-12.a"),
        (log_in_with_metadata_document, "C-REG-03.a"),
    ],
)
async def test_correct_client_passes(client, case):
    revisions = ("2025-03-26",) if case == "C-AUTH-12.a" else (LATEST_SESSION.name,)
    report = await run_client(
        client, Options(only=(case,), revisions=revisions), http=True
    )
    assert [result.verdict for result in report.results] == [Verdict.PASS]


def may_find(fault, case, everything):
    """Return whether a case of another fault runs: it looks at the first run, or all.

    A client with a fault may fail, and the clients over stdio that stop at a message
    open no second connection.
    """
    is_login = isinstance(fault, LoginMutant)
    is_like = (case.family == "authorization") == is_login and case.is_quick
    is_left_out = case.id in {"C-A18.a", "C-TR-STDIO-14.a", "C-VER-12.b"}
    return not is_left_out and (case.start is Start.SHARED or (everything and is_like))


@pytest.mark.timeout(180)  # with all cases
@pytest.mark.grounds(1, "transport")
@pytest.mark.parametrize(
    ("fault", "transport"),
    [(m, t) for m in MUTANTS for t in m.transports],
    ids=lambda each: each if isinstance(each, str) else each.name,
)
async def test_a_fault_is_found_by_its_case_and_no_unrelated_one(
    fault, transport, pytestconfig
):
    (case,) = [case for case in CASES if case.id == fault.case]
    everything = pytestconfig.getoption("--all-grounds")
    only = (case.id, *(each.id for each in CASES if may_find(fault, each, everything)))
    found = set()
    # A fault of sessions only is not seen in the newest revision.
    for revision in dict.fromkeys((case.revisions[-1], LATEST_SESSION.name)):
        if revision in case.revisions and case.id not in found:
            answer_s = 2.0 if everything else 1.0
            options = Options(only=only, revisions=(revision,), answer_s=answer_s)
            report = await run_client(fault.make(), options, http=transport == "http")
            found |= {r.case for r in report.results if r.verdict in BAD}
            await asyncio.gather(*ENDING)
            ENDING.clear()
    assert case.id in found
    assert found <= {case.id, *RELATED.get(case.id, ())}


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


CALLER = """
import asyncio, sys, mcpwire
async def main():
    async with mcpwire.Client(sys.argv[1]) as client:
        await client.{call}
asyncio.run(main())
"""
ONE = ("--only", "C-LIFE-11.a", "--revision", "2025-11-25")


@pytest.fixture
def check_client(cli, tmp_path):
    """Check a program as a client; returns the exit code, stdout and stderr."""

    def check(program, *words):
        file = tmp_path / "caller.py"
        file.write_text(program)
        return cli(
            "check", "client", *words, "--", sys.executable, str(file), "{target}"
        )

    return check


@pytest.mark.parametrize("words", [(), ("--http",)], ids=["stdio", "http"])
def test_client_that_breaks_a_must_exits_with_6(cli, check_client, words):
    code, out, _ = check_client(CALLER.format(call="list_tools()"), *ONE, *words)
    assert (code, out.partition(":")[2][:7]) == (0, " 1 pass")
    careless = CALLER.format(call="request('tools/list')")
    code, out, _ = check_client(careless, *ONE, *words)
    assert code == 6
    (line,) = [each for each in out.splitlines() if "again" in each]
    assert cli(*shlex.split(line)[2:])[0] == 6


def test_client_that_does_not_connect_exits_with_4(check_client):
    code, _, err = check_client("raise SystemExit('no server')")
    assert (code, err.count("\n")) == (4, 1)
    assert "the client sent nothing to its server; the client exited with code 1" in err


@pytest.mark.parametrize("word", ["@files", "https://example.com/mcp"])
def test_server_in_place_of_a_client_is_a_usage_error(cli, word):
    code, _, err = cli("check", "client", word)
    assert (code, f"{word!r} names a server" in err) == (2, True)


def test_only_other_http_requests_are_named(check_client):
    program = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1] + 'x')"
    code, _, err = check_client(program, "--http")
    assert (code, "sent no message but GET /mcpx to its server" in err) == (4, True)


def test_time_limit_of_the_run_holds_for_the_first_runs(check_client):
    waiting = "import threading; threading.Event().wait()"
    code, _, err = check_client(waiting, "--budget", "1s")
    assert (code, "the first runs of the client took longer than 1 s" in err) == (
        4,
        True,
    )


def test_process_that_keeps_stdout_open_does_not_delay_the_run(check_client, tmp_path):
    file = tmp_path / "pids"
    daemon = f"""
import subprocess
child = subprocess.Popen(["sleep", "60"], process_group=0)
print(child.pid, file=open({str(file)!r}, "a"))
"""
    assert check_client(daemon + CALLER.format(call="list_tools()"), *ONE)[0] == 0
    for pid in file.read_text().split():
        os.kill(int(pid), signal.SIGKILL)  # it still runs


async def test_client_function_that_is_cancelled_ends_with_an_error():
    async def client(target):
        await make_client()(target)
        raise asyncio.CancelledError

    options = Options(only=("C-A18.a",), revisions=(LATEST_SESSION.name,))
    (result,) = (await run_client(client, options)).results
    assert (result.verdict, "CancelledError" in result.actual) == (Verdict.WARN, True)


async def test_connection_closes_after_a_request_that_wants_it():
    async def client(url):
        host, port = urlsplit(url).netloc.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(b"GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 404")
        writer.close()
        await make_client()(url)

    options = Options(only=("C-A18.a",), revisions=(LATEST_SESSION.name,))
    (result,) = (await run_client(client, options, http=True)).results
    assert result.verdict is Verdict.PASS


async def test_credentials_of_a_client_are_masked_in_its_octets():
    async def client(url):
        headers = {"Authorization": "Bearer a-secret"}
        async with mcpwire.Client(mcpwire.Http(url, headers=headers)) as connection:
            await connection.list_tools()

    options = Options(only=("C-LIFE-09.a",), revisions=(LATEST_SESSION.name,))
    (result,) = (await run_client(client, options, http=True)).results
    sent = b"".join(octets[3] for octets in result.octets).lower()
    assert b"authorization:" in sent
    assert b"a-secret" not in sent


def test_client_that_a_signal_ends_has_crashed(check_client):
    end = "\nimport os; os.kill(os.getpid(), 11)"
    words = ("--only", "C-PING-01.b", "--revision", "2025-11-25")
    code, out, _ = check_client(CALLER.format(call="list_tools()") + end, *words)
    assert (code, out.partition(" ")[0]) == (6, "crash")


async def test_client_that_stays_running_may_repeat_a_request():
    async def client(target):
        async with mcpwire.Client(target) as connection:
            while True:
                await connection.request("tools/list")
                await asyncio.sleep(0.1)  # the subject: a request again and again

    run = ClientSubject(client, LATEST_SESSION, "stdio")
    run.facts.sent["tools/list"] = 1000
    run.facts.ending = Ending(None, "")
    run.run_s = 1.0
    await run.run_undisturbed("the same requests")


@pytest.mark.parametrize("http", [False, True], ids=["stdio", "http"])
async def test_client_that_connects_twice_passes(http):
    async def client(target):
        for _ in range(2):
            async with mcpwire.Client(target) as connection:
                await connection.list_tools()

    only = ("C-LHTTP-24.a", "C-LHTTP-24.c", "C-LHTTP-29.b", "C-D72.a", "C-RPC-05.a")
    options = Options(only=only, revisions=(LATEST_SESSION.name,))
    report = await run_client(client, options, http=http)
    assert {result.verdict for result in report.results} <= GOOD

"""The runner: origins of verdicts, selection of cases, and cleanup."""

import asyncio
import json
import os
import re
import sys
from pathlib import Path

import attrs
import pytest
from ports import kept_port
from small_http import ACCEPTED, opening, read_request, respond, serving, with_body

from mcpwire import Http, Stdio
from mcpwire.check import Case, Level, Options, Verdict, run, runner, select
from mcpwire.check.case import Family, PeerDied, Start
from mcpwire.check.subject import Subject
from mcpwire.errors import ConnectError

SERVER = Stdio(sys.executable, [str(Path(__file__).with_name("server.py"))])
ONE = Options(revisions=("2025-11-25",), speed="full")
HANGS = Options(revisions=("2025-11-25",), speed="full", answer_s=1.0)

# A small server: it answers the handshake, then obeys methods named after their
# effects.
OBEDIENT = """
import json, os, sys, time
for line in sys.stdin:
    try:
        message = json.loads(line)
    except ValueError:
        continue
    method = message.get("method")
    if "id" not in message or method is None:
        continue
    result = {}
    if method == "initialize":
        result = {
            "protocolVersion": message["params"]["protocolVersion"],
            "capabilities": {},
            "serverInfo": {"name": "obedient", "version": "1"},
        }
    if method == "exit":
        os._exit(3)
    if method == "hang":
        continue
    if method == "deafen":
        os.close(0)
    answer = {"jsonrpc": "2.0", "id": message["id"], "result": result}
    print(json.dumps(answer), flush=True)
    if method == "exit later":
        os._exit(4)
    if method == "deafen":
        time.sleep(60)
"""


def python(text):
    return Stdio(sys.executable, ["-c", text])


def target():
    return python(OBEDIENT)


def make_cases(**runs):
    """Return cases of functions; the first letter of a name is its level."""
    family = Family("made")
    for name, function in runs.items():
        level, _, id = name.partition("_")
        family.case(
            f"OWN.{id}",
            {"m": Level.MUST, "s": Level.SHOULD, "r": Level.ROBUST}[level],
            f"title of {id}",
            source="basic",
            sends="s",
            expects="e",
            why="w",
        )(function)
    return family.cases


def verdicts(cases, options=ONE, where=None):
    report = asyncio.run(run(where or target(), options, cases=cases))
    return {result.case.removeprefix("OWN."): result for result in report.results}


def over_http(serve, cases, options=ONE, path="/"):
    """Run cases against a server over HTTP, given as a function of a connection."""

    async def check():
        async with serving(serve) as origin:
            return await run(f"{origin}{path}", options, cases=cases)

    return asyncio.run(check())


async def fine(subject):
    await subject.request("ping")


async def broken(subject):
    answer = await subject.request("ping")
    subject.expect(answer.result == {"a": 1}, 'the result {"a":1}', answer)


async def lenient(subject):
    subject.raise_lenient("an error", "a result")


async def absent(subject):
    subject.raise_absent("tools")


async def misread(subject):
    await subject.request("ping")
    raise KeyError("serverInfo")


async def hanging(subject):
    await subject.request("hang")


async def crashing(subject):
    await subject.request("exit")


async def crashing_later(subject):
    await subject.request("exit later")


def test_verdict_follows_from_the_observations_of_the_case():
    found = verdicts(
        make_cases(
            m_fine=fine,
            m_broken=broken,
            s_broken2=broken,
            r_broken3=broken,
            m_lenient=lenient,
            m_absent=absent,
            m_misread=misread,
        )
    )
    assert {name: each.verdict for name, each in found.items()} == {
        "fine": Verdict.PASS,
        "broken": Verdict.FAIL,
        "broken2": Verdict.WARN,
        "broken3": Verdict.WARN,
        "lenient": Verdict.LENIENT,
        "absent": Verdict.ABSENT,
        "misread": Verdict.UNRUN,
    }
    assert found["misread"].actual.endswith("KeyError('serverInfo')")
    assert found["broken"].expected == 'the result {"a":1}'
    assert found["broken"].actual.endswith('"result": {}}')
    assert '"method":"ping"' in found["broken"].sent
    assert (
        "--only OWN.broken --revision 2025-11-25 --seed 1 -- " in found["broken"].again
    )
    assert {each[1] for each in found["broken"].octets} == {"sent", "received"}


def test_server_that_closes_stdin_but_runs_is_a_hang():
    async def deafening(subject):
        await subject.request("deafen")
        await subject.request("ping")

    patient = Options(revisions=ONE.revisions, answer_s=3.0, speed="full")
    found = verdicts(make_cases(m_deaf=deafening, m_after=fine), patient)
    assert found["deaf"].verdict is Verdict.HANG
    assert found["deaf"].actual == "it closed its input but still runs"
    assert found["after"].verdict is Verdict.PASS


@pytest.mark.parametrize("crash", [crashing, crashing_later])
def test_crash_is_attributed_to_its_case_and_the_next_one_runs(crash):
    found = verdicts(make_cases(m_before=fine, m_crash=crash, m_after=fine))
    assert found["before"].verdict is Verdict.PASS
    assert found["crash"].verdict is Verdict.CRASH
    assert "exited with code" in found["crash"].actual
    assert found["after"].verdict is Verdict.PASS


def test_hang_is_attributed_to_its_case_and_the_next_one_runs():
    found = verdicts(make_cases(m_hang=hanging, m_after=fine), HANGS)
    assert found["hang"].verdict is Verdict.HANG
    assert found["hang"].expected.startswith("an answer with the id")
    assert found["after"].verdict is Verdict.PASS


def test_case_ends_at_its_time_limit():
    async def endless(subject):
        await asyncio.Event().wait()

    (case,) = make_cases(m_endless=endless)
    found = verdicts([attrs.evolve(case, bound_s=0.1)])
    assert found["endless"].verdict is Verdict.HANG
    assert found["endless"].expected == "the case takes at most 0.1 s"


async def greets_another(subject):
    await subject.open_another()


async def greets(subject):
    await subject.handshake()


def test_message_sent_on_a_second_connection_is_shown():
    async def ask_on_another(subject):
        other = await subject.open_another()
        answer = await other.request("other")
        subject.raise_broken("an error", answer)

    found = verdicts(make_cases(m_it=ask_on_another))
    assert '"method":"other"' in found["it"].sent


@pytest.mark.parametrize(
    ("case", "start"), [(greets_another, Start.SHARED), (greets, Start.RAW)]
)
def test_process_start_does_not_count_for_the_time_limit(case, start):
    # The subject takes longer to start than the bound of the case.
    where = python("import time; time.sleep(0.5)" + OBEDIENT)
    (base_case,) = make_cases(m_it=case)
    found = verdicts([attrs.evolve(base_case, bound_s=0.3, start=start)], where=where)
    assert found["it"].verdict is Verdict.PASS


def test_case_with_its_own_start_gets_its_own_process():
    pids = []

    async def note(subject):
        pids.append(subject.stdio.pid)
        await subject.request("ping")

    first, second, third = make_cases(m_a=note, m_b=note, m_c=note)
    found = verdicts([first, second, attrs.evolve(third, start=Start.OWN)])
    assert all(each.verdict is Verdict.PASS for each in found.values())
    assert len(pids) == 3
    assert len(set(pids)) == 2


@pytest.mark.parametrize(
    ("need", "message"),
    [
        ("tools", "no tools"),
        ("role:echo", r"no callable tool for the role 'echo' .*--map echo=TOOL"),
        ("call:", "no callable tool .*--allow-calls"),
        ("token:scope", r"no token 'scope' \(--auth scope=VARIABLE\)"),
    ],
)
def test_case_with_an_unmet_need_is_absent(need, message):
    (case,) = make_cases(m_a=fine)
    found = verdicts([attrs.evolve(case, needs=(need,))])
    assert found["a"].verdict is Verdict.ABSENT
    assert re.match(message, found["a"].actual)


def test_used_up_budget_leaves_cases_unrun():
    report = asyncio.run(
        run(
            target(),
            attrs.evolve(ONE, budget_s=0.0),
            cases=make_cases(m_a=fine, m_b=fine),
        )
    )
    assert report.out_of_budget
    assert {each.verdict for each in report.results} == {Verdict.UNRUN}
    (score,) = report.scores().values()
    assert score.points == 5


def test_server_that_cannot_restart_leaves_the_rest_unrun(tmp_path):
    once = tmp_path / "once"
    text = f"""
import os, sys
if os.path.exists({str(once)!r}):
    sys.exit("no more")
{OBEDIENT}
"""
    once_only = text.replace(
        "os._exit(3)", f"open({str(once)!r}, 'w').close(); os._exit(3)"
    )
    found = verdicts(make_cases(m_crash=crashing, m_next=fine), where=python(once_only))
    assert found["crash"].verdict is Verdict.CRASH
    assert found["next"].verdict is Verdict.UNRUN
    assert "the connection failed" in found["next"].actual


def test_unsupported_revisions_are_named_in_the_notes():
    report = asyncio.run(
        run(target(), attrs.evolve(ONE, revisions=()), cases=make_cases(m_a=fine))
    )
    assert [cell.revision for cell in report.cells()] == [
        *("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
    ]
    (note,) = report.notes
    assert note.startswith("2026-07-28: ")
    assert report.server == {"name": "obedient", "version": "1"}


class OverEvents:
    """A server over HTTP+SSE for one connection at a time."""

    async def __call__(self, reader, writer):
        head, body = await read_request(reader)
        if head.startswith(b"GET /sse"):
            self.stream = writer
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n")
            writer.write(b"event: endpoint\ndata: /messages\n\n")
            await reader.read()
        elif head.startswith(b"POST /messages"):
            message = json.loads(body)
            answer = {"jsonrpc": "2.0", "id": message.get("id"), "result": {}}
            if message["method"] == "initialize":
                version = message["params"]["protocolVersion"]
                answer["result"] = opening("events", version)
            writer.write(ACCEPTED)
            if "id" in message:
                self.stream.write(b"data: " + json.dumps(answer).encode() + b"\n\n")
        else:
            writer.write(with_body(b"", status="404 Not Found"))


def test_revisions_supported_over_sse_are_not_in_the_notes():
    options = attrs.evolve(ONE, revisions=("2025-11-25", "2026-07-28"))
    report = over_http(OverEvents(), make_cases(m_a=fine), options, "/sse")
    assert [str(cell) for cell in report.cells()] == ["server sse 2025-11-25"]
    assert [note[:10] for note in report.notes] == ["2026-07-28"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("import sys; sys.exit(7)", "exited with code 7"),
        ("print('hello', flush=True); import sys; sys.exit(0)", "exited with code 0"),
        ("while True: print('noise')", "100,000 lines, such as noise"),
    ],
)
def test_program_that_is_not_a_server_is_a_connect_error(text, problem):
    with pytest.raises(ConnectError, match=r"no revision could be used: .*" + problem):
        asyncio.run(run(python(text), ONE))


def test_unreachable_url_is_a_connect_error():
    with pytest.raises(ConnectError, match=r"no revision could be used: .* refused"):
        asyncio.run(run("http://127.0.0.1:9/mcp", ONE))


def test_server_that_does_not_listen_yet_is_retried(monkeypatch):
    connect, refused = asyncio.open_connection, asyncio.Event()

    async def connect_and_record(*where, **options):
        try:
            return await connect(*where, **options)
        except ConnectionRefusedError:
            refused.set()
            raise

    async def check(port):
        options = attrs.evolve(ONE, wait_s=60.0)
        url = f"http://127.0.0.1:{port}/"
        running = asyncio.create_task(run(url, options, cases=make_cases(m_a=fine)))
        await refused.wait()
        assert not running.done()
        async with serving(SilentAfter(None), port):
            return await running

    monkeypatch.setattr(asyncio, "open_connection", connect_and_record)
    with kept_port() as port:
        (result,) = asyncio.run(check(port)).results
    assert result.verdict is Verdict.PASS


def test_host_with_two_refusing_addresses_is_retried(monkeypatch):
    connect, tries = asyncio.open_connection, 0

    async def refused_first(*where, **options):
        nonlocal tries
        tries += 1
        if tries <= 5:  # the form in which asyncio reports several errors
            raise OSError("Multiple exceptions: [Errno 111], [Errno 111]")
        return await connect(*where, **options)

    monkeypatch.setattr(asyncio, "open_connection", refused_first)
    waits = attrs.evolve(ONE, wait_s=60.0)
    (result,) = over_http(SilentAfter(None), make_cases(m_a=fine), waits).results
    assert result.verdict is Verdict.PASS


def test_retries_end_after_wait_s():
    with pytest.raises(ConnectError, match=r"no revision could be used: .* refused"):
        asyncio.run(run("http://127.0.0.1:9/mcp", attrs.evolve(ONE, wait_s=0.1)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"headers": dict}, "headers must be a mapping here"),
        ({"proxy": "http://127.0.0.1:8/"}, "it takes no proxy"),
    ],
)
def test_unsupported_http_options_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        asyncio.run(run(Http("http://127.0.0.1:9/", **options), ONE))


def test_cancelled_run_leaves_no_process_running():
    pids = []

    async def hang(subject):
        pids.append(subject.stdio.pid)
        running.cancel()
        await asyncio.Event().wait()

    async def main():
        global running  # noqa: PLW0603 - the case reaches it so
        running = asyncio.create_task(run(target(), ONE, cases=make_cases(m_a=hang)))
        with pytest.raises(asyncio.CancelledError):
            await running

    asyncio.run(main())
    with pytest.raises(ProcessLookupError):
        os.kill(pids[0], 0)


def test_the_same_seed_sends_the_same_octets():
    def sent(seed):
        options = attrs.evolve(ONE, only=("fuzz",), seed=seed, answer_s=5.0)
        report = asyncio.run(run(SERVER, options))
        return {
            result.case: b"".join(
                data for _, direction, _, data in result.octets if direction == "sent"
            )
            for result in report.results
        }

    first, repeated, other = sent(7), sent(7), sent(8)
    assert first == repeated
    assert first != other
    assert first.keys() == other.keys()


def test_cases_are_chosen_by_id_family_and_level():
    usual, slow, hostile = make_cases(m_a=fine, s_b=fine, r_c=fine)
    cases = [
        usual,
        attrs.evolve(slow, is_quick=False),
        attrs.evolve(hostile, is_hostile=True),
    ]

    def ids(**options):
        return [case.id for case in select(Options(**options), cases)]

    assert ids() == ["OWN.a"]
    assert ids(speed="full") == ["OWN.a", "OWN.b"]
    assert ids(speed="full", hostile=True) == ["OWN.a", "OWN.b", "OWN.c"]
    assert ids(only=("OWN.b",)) == ["OWN.b"]
    assert ids(only=("OWN",)) == ["OWN.a", "OWN.b", "OWN.c"]
    assert ids(only=("made",), speed="full") == ["OWN.a", "OWN.b"]
    assert ids(only=("should",), speed="full") == ["OWN.b"]
    assert ids(skip=("OWN.a",), speed="full") == ["OWN.b"]
    with pytest.raises(ValueError, match="no case matches 'NOPE'"):
        ids(only=("NOPE",))
    with pytest.raises(ValueError, match=r"takes any of 2024-11-05, .* got '2020'"):
        ids(revisions=("2020",))


def test_first_start_may_take_longer_than_the_timeout(monkeypatch, tmp_path):
    monkeypatch.setattr(runner, "_START_TIMEOUT_S", 0.2)
    fetched = f"""
import pathlib, time
marker = pathlib.Path({str(tmp_path / "fetched")!r})
if not marker.exists():
    marker.touch()
    time.sleep(1)  # the subject: a first start that takes long
"""
    options = attrs.evolve(ONE, answer_s=0.3)
    found = verdicts(make_cases(m_it=fine), options, python(fetched + OBEDIENT))
    assert found["it"].verdict is Verdict.PASS


def test_case_is_inspectable_without_a_subject():
    (case,) = make_cases(m_a=fine)
    assert isinstance(case, Case)
    assert (case.level, case.family, case.title) == (Level.MUST, "made", "title of a")


def test_server_that_does_not_list_its_tools_is_abandoned(monkeypatch):
    for name in ("_SURVEY_TIMEOUT_S", "_START_TIMEOUT_S"):
        monkeypatch.setattr(runner, name, 0.5)
    text = OBEDIENT.replace('"capabilities": {}', '"capabilities": {"tools": {}}')
    silent = python(text.replace('"hang"', '"tools/list"'))
    with pytest.raises(ConnectError, match="did not list its features within"):
        asyncio.run(run(silent, attrs.evolve(ONE, answer_s=3_600.0)))


def test_running_case_is_ended_when_the_budget_ends():
    async def endless(subject):
        await asyncio.Event().wait()

    options = attrs.evolve(ONE, budget_s=2.0)
    report = asyncio.run(
        run(target(), options, cases=make_cases(m_a=endless, m_b=fine))
    )
    assert report.out_of_budget
    assert {(r.verdict, r.actual) for r in report.results} == {
        (Verdict.UNRUN, "the time limit of the run was reached")
    }


def test_timeout_is_shorter_after_five_hangs():
    hangs = dict.fromkeys((f"m_{n}" for n in range(6)), hanging)
    found = verdicts(make_cases(**hangs, m_fine=fine, m_last=hanging), HANGS)
    ends = {id: each.expected.rpartition(" within ")[2] for id, each in found.items()}
    assert [ends[id] for id in ("0", "4", "5", "last")] == [
        *("1 s", "1 s", "0.2 s", "1 s")
    ]
    assert found["fine"].verdict is Verdict.PASS


def test_last_cases_see_all_connections_and_name_the_cause():
    async def find_early(subject):
        for each in subject.received:
            if each.case == "OWN.early":
                subject.raise_broken("no answer", each.raw)

    async def complain(subject):
        subject.raise_broken("anything", "else")

    early, crash, seen, other = make_cases(
        m_early=fine, m_crash=crashing, m_seen=find_early, m_other=complain
    )
    last = [attrs.evolve(each, start=Start.LAST) for each in (seen, other)]
    found = verdicts([early, crash, *last])
    assert found["crash"].verdict is Verdict.CRASH
    assert found["seen"].verdict is Verdict.FAIL
    assert "check --only OWN.seen --only OWN.early --revision" in found["seen"].again
    assert "check --full --revision 2025-11-25" in found["other"].again


class SilentAfter:
    """A server over HTTP that falls silent after a given method."""

    def __init__(self, method):
        self.method = method
        self.is_silent = False
        self.connections = 0

    async def __call__(self, reader, writer):
        _, body = await read_request(reader)
        message = json.loads(body)
        self.connections += self.is_silent
        self.is_silent = self.is_silent or message["method"] == self.method
        if self.is_silent:
            await reader.read()
        else:
            writer.write(respond(message, result=opening("silent")))


SESSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
TOOL = {"name": "t", "inputSchema": {"type": "object"}}
READS = {"annotations": {"readOnlyHint": True}}


def in_each_revision(cases, **options):
    """Run cases against a server over HTTP that speaks all revisions with sessions.

    Its tool declares readOnlyHint in the newest revision only.
    """

    async def serve(reader, writer):
        head, body = await read_request(reader)
        message = json.loads(body)
        requested = message.get("params", {}).get("protocolVersion")
        heads.append(head.decode().lower())
        result = opening("all", requested if requested in SESSIONS else SESSIONS[-1])
        is_new = b"2025-11-25" in head
        result |= {"capabilities": {"tools": {}}}
        result |= {"tools": [TOOL | READS if is_new else TOOL]}
        writer.write(respond(message, result=result))

    heads = []
    return over_http(serve, cases, attrs.evolve(ONE, **options)).results, heads


def test_read_only_hint_of_one_revision_applies_to_the_others():
    def names(subject):
        return [tool["name"] for tool in subject.facts.callable_tools]

    async def called(subject):
        await subject.request("ping")
        subject.raise_broken("a tool", names(subject))

    (case,) = make_cases(m_called=called)
    results, _ = in_each_revision([case], revisions=(SESSIONS[0], SESSIONS[-1]))
    assert [each.actual for each in results] == ['["t"]', '["t"]']
    ends = [each.again.partition("--only OWN.called ")[2] for each in results]
    assert ends[0].startswith("--revision 2024-11-05 --revision 2025-11-25 --seed")
    assert ends[1].startswith("--revision 2025-11-25 --seed")
    assert [" --full " in each.again for each in results] == [True, False]
    results, _ = in_each_revision([case], revisions=SESSIONS[:2])
    assert [each.actual for each in results] == ["[]", "[]"]


def test_is_once_case_runs_in_its_newest_supported_revision():
    (case,) = make_cases(m_a=fine)
    once = attrs.evolve(case, is_once=True, revisions=SESSIONS[:3])
    results, _ = in_each_revision([once], revisions=SESSIONS)
    assert [each.cell.revision for each in results] == [SESSIONS[2]]


def test_quick_run_checks_robustness_in_one_revision():
    for speed, revisions in (("quick", SESSIONS[-1:]), ("full", SESSIONS)):
        cases = make_cases(m_must=fine, s_should=fine, r_robust=fine)
        results, _ = in_each_revision(cases, revisions=SESSIONS, speed=speed)
        ran = [each.cell.revision for each in results if each.case == "OWN.robust"]
        assert (ran, len(results)) == ([*revisions], 8 + len(revisions))


def test_http_subject_has_no_start_time():
    waits = []

    async def note(subject):
        waits.append(subject.start_s)
        await subject.request("ping")

    (case,) = make_cases(m_note=note)
    in_each_revision([attrs.evolve(case, start=Start.OWN)], revisions=SESSIONS)
    assert waits == [0.0] * 4


@pytest.mark.parametrize(
    ("headers", "sent"),
    [({}, "bearer a-good-token"), ({"authorization": "Basic abc"}, "basic abc")],
)
def test_authorization_header_takes_precedence_over_a_token(headers, sent):
    tokens = {"good": "a-good-token"}
    options = {"tokens": tokens, "headers": headers}
    _, heads = in_each_revision(make_cases(m_a=fine), **options)
    fields = [re.findall(r"\r\nauthorization: (.*)\r", head) for head in heads]
    assert {tuple(each) for each in fields} == {(sent,)}


def test_server_that_refuses_each_case_is_tried_three_times(monkeypatch):
    count, handshake = 0, Subject.handshake

    async def for_the_survey_alone(subject):
        nonlocal count
        count += 1
        if count > 1:
            raise PeerDied("the server accepts connections", "too many")
        return await handshake(subject)

    monkeypatch.setattr(Subject, "handshake", for_the_survey_alone)
    cases = make_cases(m_a=fine, m_b=fine, m_c=fine, m_d=fine, m_e=fine)
    results, _ = in_each_revision([attrs.evolve(c, start=Start.OWN) for c in cases])
    assert {each.verdict for each in results} == {Verdict.UNRUN}
    assert (len(results), count) == (5, 1 + 3)


def test_failed_case_is_not_retried():
    tries = []

    async def better_next_time(subject):
        tries.append(subject.revision.name)
        await subject.request("ping")
        subject.expect(len(tries) > 1, "a pass", "a failure")

    cases = make_cases(m_better=better_next_time)
    (result,) = over_http(SilentAfter("x"), cases).results
    assert (result.verdict, len(tries)) == (Verdict.FAIL, 1)


def test_silent_http_server_is_waited_for_once():
    silent = SilentAfter("hang")
    hang, *others = make_cases(m_hang=hanging, m_a=fine, m_b=fine, m_c=fine)
    others[2] = attrs.evolve(others[2], start=Start.OWN)
    first, *rest = over_http(silent, [hang, *others], HANGS).results
    assert first.verdict is Verdict.HANG
    assert {each.verdict for each in rest} == {Verdict.UNRUN}
    assert len({each.actual for each in rest}) == 1
    assert rest[0].actual == "the connection failed: no response"
    assert silent.connections == 1


@pytest.mark.parametrize(("first", "count"), [(fine, 1), (broken, 2)])
def test_case_reuses_the_process_of_a_passed_predecessor(first, count):
    pids = []

    def noting(function):
        async def case(subject):
            pids.append(subject.stdio.pid)
            await function(subject)

        return case

    before, after = make_cases(m_before=noting(first), m_after=noting(fine))
    before = attrs.evolve(before, start=Start.RAW)
    after = attrs.evolve(after, start=Start.OWN, follows="OWN.before")
    found = verdicts([before, after])
    assert found["after"].verdict is Verdict.PASS
    assert len(set(pids)) == count
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

"""What is told while a call runs: progress, log messages, and how long what took."""

import json
import pickle

import pytest
from cli_servers import progress

from mcpwire.cli.session import Timing

DONE = {"result": {"content": [{"type": "text", "text": "done"}]}}
POINTS = ["queued", "written", "first byte", "complete", "decoded"]


STEPS = progress({"progress": 1, "total": 4, "message": "one\x1b[31m"}, {"progress": 2})


@pytest.mark.attack("S32")
def test_progress_is_a_line_each_where_that_is_wanted(tool_server, cli):
    done = cli("call", tool_server(*STEPS, DONE).line, "do", "--progress")
    assert done == (0, "done\n", "25%  1/4  one\\x1b[31m\n2\n")


def test_progress_is_a_json_object_each_where_results_are(tool_server, cli):
    done = cli("call", tool_server(*STEPS, DONE).line, "do", "--progress", "--json")
    assert [json.loads(line) for line in done.err.splitlines()] == [
        {"progress": {"progress": 1, "total": 4, "message": "one\x1b[31m"}},
        {"progress": {"progress": 2}},
    ]
    assert json.loads(done.out) == DONE["result"]


@pytest.mark.parametrize("words", [(), ("--no-progress",)])
def test_progress_is_not_told_to_who_did_not_want_it(tool_server, cli, words):
    assert cli("call", tool_server(*STEPS, DONE).line, "do", *words).err == ""


@pytest.mark.parametrize(
    ("words", "script", "out"),
    [
        (
            ("read", "x:1"),
            {"resources__read": {"contents": [{"uri": "x:1", "text": "t"}]}},
            "t",
        ),
        (
            ("prompt", "p", "--no-check"),
            {
                "prompts__get": {
                    "messages": [
                        {"role": "user", "content": {"type": "text", "text": "t"}}
                    ]
                }
            },
            "[user]\nt\n",
        ),
    ],
)
def test_reading_and_prompts_have_progress_too(scripted, cli, words, script, out):
    ((name, result),) = script.items()
    server = scripted(
        {"resources": {}, "prompts": {}}, **{name: [*STEPS, {"result": result}]}
    )
    done = cli(words[0], server.line, *words[1:], "--progress")
    assert done == (0, out, "25%  1/4  one\\x1b[31m\n2\n")


# Log messages...


def said(level, data, **more):
    params = {"level": level, "data": data, **more}
    return {"method": "notifications/message", "params": params}


def logging(scripted, *steps, level=({"result": {}},)):
    tool = {"name": "do", "inputSchema": {"type": "object"}}
    return scripted(
        {"tools": {}, "logging": {}},
        logging__setLevel=list(level),
        tools__list=[{"result": {"tools": [tool]}}],
        tools__call=[*steps, DONE],
    )


SAID = [
    said("warning", "low\x1b[2J\ndisk", logger="db"),
    said("mcpwire: error", {"a": [1]}),
]


@pytest.mark.attack("S32")
def test_log_messages_are_lines_that_cannot_pass_for_ours(scripted, cli):
    server = logging(scripted, *SAID)
    done = cli("call", server.line, "do", "--log-level", "debug")
    assert done == (
        0,
        "done\n",
        '[warning] db: low\\x1b[2J\\ndisk\n[mcpwire: error] {"a": [1]}\n',
    )
    assert server.requests("logging/setLevel") == [{"level": "debug"}]


def test_log_messages_are_json_objects_where_results_are(scripted, cli):
    done = cli(
        "call", logging(scripted, *SAID).line, "do", "--log-level", "info", "--json"
    )
    assert [json.loads(line) for line in done.err.splitlines()] == [
        {"log": step["params"]} for step in SAID
    ]


def test_log_messages_are_not_shown_unasked(scripted, cli):
    server = logging(scripted, *SAID)
    assert cli("call", server.line, "do").err == ""
    assert server.requests("logging/setLevel") == []


def test_a_server_that_does_not_log_cannot_be_told_to(tool_server, cli):
    done = cli("call", tool_server(DONE).line, "do", "--log-level", "info")
    assert done.code == 2
    assert "the server did not declare 'logging'" in done.err
    assert "client.request" not in done.err


def test_the_demo_logs_and_reports_in_the_stateless_era(cli, demo_target):
    words = ("slow", "steps=1", "seconds=0", "--log-level", "debug", "--progress")
    done = cli("call", demo_target, "--mode", "stateless", *words)
    assert done.code == 0
    assert done.err == "[debug] slow: step 1 is done\n100%  1/1  step 1 of 1\n"


# Timing...


def test_timing_tells_each_point_in_their_order(tool_server, cli):
    done = cli("call", tool_server(DONE).line, "do", "--timing", "--json")
    timing = json.loads(done.err)["timing"]
    assert timing["method"] == "tools/call"
    assert list(timing["milliseconds"]) == POINTS
    times = list(timing["milliseconds"].values())
    assert times == sorted(times)
    assert 0 <= times[0] < times[-1] < 30_000
    assert json.loads(done.out) == DONE["result"]


def test_timing_is_one_line_for_people(tool_server, cli):
    done = cli("call", tool_server(DONE).line, "do", "--timing")
    assert done.err.startswith("timing: queued ")
    assert [point for point in POINTS if f" {point} " in done.err] == POINTS


@pytest.mark.usefixtures("patient")
def test_timing_tells_what_is_known_of_a_call_that_got_no_answer(tool_server, cli):
    done = cli("call", tool_server().line, "do", "--timing", "--timeout", "0.5")
    assert done.code == 7
    line = done.err.splitlines()[0]
    assert "written" in line
    assert "first byte" not in line


def test_timing_tells_each_round_of_a_call_that_asks(cli, demo_target):
    order = '{"drink": "tea", "cups": 3}'
    words = ("order", "--answer", order, "--timing", "--mode", "stateless")
    done = cli("call", demo_target, *words)
    lines = done.err.splitlines()
    first, second = [line for line in lines if line.startswith("timing")]
    assert first.startswith("timing of round 1: queued")
    assert "decoded" not in first
    assert second.startswith("timing of round 2: queued")
    assert "decoded" in second


def message(**members):
    return json.dumps({"jsonrpc": "2.0", **members}).encode()


CALL = message(id=7, method="tools/call", params={})
RESULT = message(id=7, result={})
NOTICE = message(method="notifications/message", params={"data": "result"})


class Clock:
    """Seconds that pass one at a time."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr("mcpwire.cli.session.time.perf_counter", self.tick)

    def tick(self):
        self.now += 1.0
        return self.now


def measured(monkeypatch, *events):
    """Return what a timing says of events that are one second apart, in seconds."""
    Clock(monkeypatch)
    timing = Timing()
    timing.trace("open", "target")  # 1
    timing.trace("send", message(id=1, method="initialize"))  # 2
    timing.start()  # 3
    for event in events:
        timing.trace(*event)
    timing.stop()
    return [
        {point: at / 1000 for point, at in each.items()} for each in timing.rounds()
    ]


BEFORE = len(message(id=1, method="initialize")) + 1
END = BEFORE + len(CALL) + 1


def test_a_message_is_written_when_its_last_byte_was_taken(monkeypatch):
    found = measured(
        monkeypatch,
        ("written", BEFORE),  # 1 s after the start: the rest of the message before
        ("send", CALL),  # 2
        ("written", END - 1),
        ("written", END),  # 4
        ("written", END + 9),
    )
    assert found == [{"queued": 2, "written": 4}]


def test_the_first_byte_is_that_of_the_answer_itself(monkeypatch):
    found = measured(
        monkeypatch,
        ("send", CALL),  # 1
        ("written", END),  # 2
        ("read", NOTICE + b"\n" + RESULT[:5]),  # 3: the answer begins in this chunk
        ("receive", NOTICE),
        ("read", RESULT[5:-1]),
        ("read", RESULT[-1:] + b"\n"),
        ("receive", RESULT),  # 7
    )
    expected = {"queued": 1, "written": 2, "first byte": 3, "complete": 7, "decoded": 8}
    assert found == [expected]


def test_an_answer_that_comes_after_other_lines_has_its_own_first_byte(monkeypatch):
    found = measured(
        monkeypatch,
        ("send", CALL),
        ("read", NOTICE + b"\n"),
        ("receive", NOTICE),
        ("read", NOTICE + b"\n" + RESULT + b"\n"),  # 4
        ("receive", NOTICE),
        ("receive", RESULT),  # 6
    )
    assert found == [{"queued": 1, "first byte": 4, "complete": 6, "decoded": 7}]


@pytest.mark.parametrize(
    "strange",
    [b"", b"nonsense", b"[]", message(id=[], result={}), message(id="7", result={})],
)
def test_lines_that_answer_nothing_are_passed_over(monkeypatch, strange):
    found = measured(
        monkeypatch,
        ("send", strange),
        ("send", CALL),
        ("read", strange + b'"result"\n'),
        ("receive", strange + b'"result"'),
        ("receive", strange),
    )
    assert found == [{"queued": 2}]


def test_a_connection_opened_anew_counts_its_bytes_anew(monkeypatch):
    found = measured(
        monkeypatch, ("open", "target"), ("send", CALL), ("written", len(CALL) + 1)
    )
    assert found == [{"queued": 2, "written": 3}]


def test_timing_keeps_no_bytes_but_those_of_answers():
    timing = Timing()
    timing.start()
    for _ in range(100):
        timing.trace("read", b"x" * 10_000 + b"\n")
        timing.trace("receive", b'{"method":"notifications/message"}' + b" " * 10_000)
    assert len(pickle.dumps(timing)) < 20_000

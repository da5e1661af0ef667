"""Output during a call: progress, log messages and timing."""

import json
import pickle

import pytest
from cli_servers import DONE, progress

from mcpwire.cli.session import Timing

POINTS = ["queued", "written", "first byte", "complete", "decoded"]


STEPS = progress({"progress": 1, "total": 4, "message": "one\x1b[31m"}, {"progress": 2})


@pytest.mark.attack("S32")
def test_progress_option_prints_one_line_per_notification(tool_server, cli):
    done = cli("call", tool_server(*STEPS, DONE).line, "do", "--progress")
    assert done == (0, "done\n", "25%  1/4  one\\x1b[31m\n2\n")


def test_progress_with_json_is_one_object_per_notification(tool_server, cli):
    done = cli("call", tool_server(*STEPS, DONE).line, "do", "--progress", "--json")
    assert [json.loads(line) for line in done.err.splitlines()] == [
        {"progress": {"progress": 1, "total": 4, "message": "one\x1b[31m"}},
        {"progress": {"progress": 2}},
    ]
    assert json.loads(done.out) == DONE["result"]


@pytest.mark.parametrize("words", [(), ("--no-progress",)])
def test_progress_is_not_printed_without_the_option(tool_server, cli, words):
    assert cli("call", tool_server(*STEPS, DONE).line, "do", *words).err == ""


@pytest.mark.parametrize(
    ("words", "out"),
    [(("read", "x:1"), "t"), (("prompt", "p", "--no-check"), "[user]\nt\n")],
)
def test_read_and_prompt_print_progress(scripted, cli, words, out):
    contents = [{"uri": "x:1", "text": "t"}]
    messages = [{"role": "user", "content": {"type": "text", "text": "t"}}]
    server = scripted(
        {"resources": {}, "prompts": {}},
        resources__read=[*STEPS, {"result": {"contents": contents}}],
        prompts__get=[*STEPS, {"result": {"messages": messages}}],
    )
    done = cli(words[0], server.line, *words[1:], "--progress")
    assert done == (0, out, "25%  1/4  one\\x1b[31m\n2\n")


def log_message(level, data, **more):
    params = {"level": level, "data": data, **more}
    return {"method": "notifications/message", "params": params}


LOG_MESSAGES = [
    log_message("warning", "low\x1b[2J\ndisk", logger="db"),
    log_message("mcpwire: error", {"a": [1]}),
]


@pytest.fixture
def logging_server(tool_server):
    """Make a server whose tool logs these messages."""
    level = [{"result": {}}]
    offer = {"logging": {}}
    return tool_server(*LOG_MESSAGES, DONE, capabilities=offer, logging__setLevel=level)


@pytest.mark.attack("S32")
def test_log_messages_are_escaped_and_marked_with_their_level(logging_server, cli):
    done = cli("call", logging_server.line, "do", "--log-level", "debug")
    assert done == (
        0,
        "done\n",
        '[warning] db: low\\x1b[2J\\ndisk\n[mcpwire: error] {"a": [1]}\n',
    )
    assert logging_server.requests("logging/setLevel") == [{"level": "debug"}]


def test_log_messages_with_json_are_objects(logging_server, cli):
    done = cli("call", logging_server.line, "do", "--log-level", "info", "--json")
    assert [json.loads(line) for line in done.err.splitlines()] == [
        {"log": step["params"]} for step in LOG_MESSAGES
    ]


def test_log_messages_are_not_printed_without_the_option(logging_server, cli):
    assert cli("call", logging_server.line, "do").err == ""
    assert logging_server.requests("logging/setLevel") == []


def test_log_level_for_a_server_without_logging_is_an_error(tool_server, cli):
    done = cli("call", tool_server(DONE).line, "do", "--log-level", "info")
    assert done.code == 2
    assert "the server did not declare 'logging'" in done.err
    assert "client.request" not in done.err


def test_demo_server_logs_and_reports_progress_when_stateless(cli, demo_target):
    words = ("slow", "steps=1", "seconds=0", "--log-level", "debug", "--progress")
    done = cli("call", demo_target, "--mode", "stateless", *words)
    assert done.code == 0
    assert done.err == "[debug] slow: step 1 is done\n100%  1/1  step 1 of 1\n"


def test_timing_contains_each_point_in_order(tool_server, cli):
    done = cli("call", tool_server(DONE).line, "do", "--timing", "--json")
    timing = json.loads(done.err)["timing"]
    assert timing["method"] == "tools/call"
    assert list(timing["milliseconds"]) == POINTS
    times = list(timing["milliseconds"].values())
    assert times == sorted(times)
    assert 0 <= times[0] < times[-1] < 30_000
    assert json.loads(done.out) == DONE["result"]


def test_timing_without_json_is_one_line(tool_server, cli):
    done = cli("call", tool_server(DONE).line, "do", "--timing")
    assert done.err.startswith("timing: queued ")
    assert [point for point in POINTS if f" {point} " in done.err] == POINTS


@pytest.mark.usefixtures("patient")
def test_timing_of_a_timed_out_call_has_the_points_it_reached(tool_server, cli):
    done = cli("call", tool_server().line, "do", "--timing", "--timeout", "0.5")
    assert done.code == 7
    line = done.err.splitlines()[0]
    assert "written" in line
    assert "first byte" not in line


def test_timing_has_a_line_for_each_input_round(cli, demo_target):
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
    """A clock that advances one second per reading."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        monkeypatch.setattr("mcpwire.cli.session.time.perf_counter", self.tick)

    def tick(self):
        self.now += 1.0
        return self.now


def measured(monkeypatch, *events):
    """Return the timing of events one second apart, in seconds."""
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


def test_written_is_the_time_of_the_last_byte(monkeypatch):
    found = measured(
        monkeypatch,
        ("written", BEFORE),  # 1 s after the start: the rest of the message before
        ("send", CALL),  # 2
        ("written", END - 1),
        ("written", END),  # 4
        ("written", END + 9),
    )
    assert found == [{"queued": 2, "written": 4}]


def test_first_byte_is_that_of_the_response(monkeypatch):
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


def test_first_byte_of_a_response_behind_other_lines(monkeypatch):
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
def test_unrelated_lines_are_ignored(monkeypatch, strange):
    found = measured(
        monkeypatch,
        ("send", strange),
        ("send", CALL),
        ("read", strange + b'"result"\n'),
        ("receive", strange + b'"result"'),
        ("receive", strange),
    )
    assert found == [{"queued": 2}]


def test_reopened_connection_restarts_the_byte_count(monkeypatch):
    found = measured(
        monkeypatch, ("open", "target"), ("send", CALL), ("written", len(CALL) + 1)
    )
    assert found == [{"queued": 2, "written": 3}]


def test_timing_does_not_keep_bytes_of_notifications():
    timing = Timing()
    timing.start()
    for _ in range(100):
        timing.trace("read", b"x" * 10_000 + b"\n")
        timing.trace("receive", b'{"method":"notifications/message"}' + b" " * 10_000)
    assert len(pickle.dumps(timing)) < 20_000

"""On a terminal: progress while a call runs, and escaped text of servers."""

import asyncio
import io
import json
import os
import signal
import subprocess
import sys

import pytest
from cli_servers import DONE, entry, progress
from terminals import run

from mcpwire.cli.output import Output, ProgressLine, progress_text
from mcpwire.testing import run as run_virtually

CONTENT = [{"type": "text", "text": "a\x1b]0;evil\x07\u202eb\tc\r\nd"}]


@pytest.mark.attack("S32")
def test_server_text_is_escaped_on_a_terminal(terminal, tool_server):
    server = tool_server({"result": {"content": CONTENT}})
    assert run(terminal(), "call", server.line, "do") == (
        0,
        "a\\x1b]0;evil\\x07\\u202eb\tc\\r\nd\n",
    )


@pytest.mark.attack("S32")
def test_server_error_is_escaped_on_a_terminal(terminal, tool_server):
    server = tool_server({"error": {"code": -1, "message": "no\x1b[2J\nway"}})
    code, text = run(terminal(), "call", server.line, "do")
    assert code == 8
    assert text == "mcpwire: tools/call: no\\x1b[2J\\nway (JSON-RPC error -1)\n"


def test_progress_line_is_rewritten_and_then_cleared(terminal, tool_server):
    server = tool_server(
        *progress(
            {"progress": 1, "total": 4, "message": "one\x1b[31m"},
            {"progress": 4, "total": 4, "message": "four"},
        ),
        DONE,
    )
    code, text = run(terminal(), "call", server.line, "do")
    assert code == 0
    assert text == (
        "\r\x1b[K[#####...............]  25%  1/4  one\\x1b[31m"
        "\r\x1b[K[####################] 100%  4/4  four"
        "\r\x1b[Kdone\n"
    )


def test_progress_is_shown_while_the_result_is_piped(terminal, demo_target):
    one = terminal().start(
        "call", demo_target, "slow", "steps=3", "seconds=0.3", stdout=subprocess.PIPE
    )
    assert one.finish() == 0
    with one.process.stdout:
        assert one.process.stdout.read() == b"3 steps in 0.3 seconds\n"
    assert b"33%  1/3  step 1 of 3" in one.written
    assert one.written.endswith(b"\r\x1b[K")


def test_progress_line_is_not_drawn_with_json(terminal, demo_target):
    words = ["call", demo_target, "slow", "steps=2", "seconds=0.1", "--json"]
    code, text = run(terminal(), *words)
    assert code == 0
    assert "\x1b" not in text
    assert text.startswith("{")


def test_interrupt_clears_the_progress_line(terminal, demo_target):
    one = terminal().start("call", demo_target, "slow", "steps=200", "seconds=20")
    one.read_until(r"2/200")
    one.process.send_signal(signal.SIGINT)
    assert one.finish() == 130
    assert one.written.endswith(b"\r\x1b[Kmcpwire: interrupted\n")


def test_connecting_line_is_shown_until_the_server_answers(
    terminal, tool_server, tmp_path
):
    server = tool_server(DONE, first=[{"until": str(tmp_path / "go")}])
    config = tmp_path / "servers.json"
    config.write_text(json.dumps({"mcpServers": {"one": entry(server)}}))
    for words in (["ls", "--config", str(config)], ["check", server.line]):
        one = terminal().start(*words)
        one.read_until(r"\r\x1b\[Kconnecting to \S")
        one.process.send_signal(signal.SIGINT)
        assert one.finish() == 130
        assert one.written.endswith(b"\r\x1b[Kmcpwire: interrupted\n")
    one = terminal().start("call", server.line, "do")
    one.read_until(r"\r\x1b\[Kconnecting to \S")
    (tmp_path / "go").touch()
    assert one.finish() == 0
    assert one.written.endswith(b"\r\x1b[Kdone\n")


def test_official_suite_line_is_shown_until_it_ends(terminal, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    suite = tmp_path / "suite"
    suite.write_text(f"#!/bin/sh\ncat {go}\n")
    suite.chmod(0o755)
    words = ("check", "--official", "--suite", str(suite), "--revision", "2025-11-25")
    one = terminal().start(*words, "http://127.0.0.1:9/mcp")
    one.read_until(r"\r\x1b\[Krunning the official suite against \S")
    go.write_text("no such scenario")
    assert one.finish() == 6
    assert b"no such scenario" in one.written


def test_note_suppresses_the_connecting_line(monkeypatch):
    monkeypatch.setattr(sys, "stderr", stream := io.StringIO())
    stream.isatty = lambda: True

    async def wait():
        with (output := Output()).waiting("connecting"):
            output.note("log in")
            await asyncio.sleep(2)

    run_virtually(wait())
    assert stream.getvalue() == "log in\n"


def test_binary_contents_are_not_printed_on_a_terminal(terminal, scripted):
    parts = [{"uri": "x:1", "blob": "/wA=", "mimeType": "image/png"}]
    server = scripted(
        {"resources": {}}, resources__read=[{"result": {"contents": parts}}]
    )
    code, text = run(terminal(), "read", server.line, "x:1")
    assert code == 2
    assert text.startswith(
        "mcpwire: 'x:1' is binary (image/png, 2 bytes): save it with"
    )
    one = terminal().start("read", server.line, "x:1", "-o", "-")
    assert one.finish() == 0
    assert one.written.endswith(b"\xff\x00")


def test_text_contents_are_escaped_on_a_terminal(terminal, scripted):
    parts = [{"uri": "x:1", "text": "a\x1bb"}, {"uri": "x:2", "text": "c"}]
    server = scripted(
        {"resources": {}}, resources__read=[{"result": {"contents": parts}}]
    )
    assert run(terminal(), "read", server.line, "x:1") == (0, "a\\x1bb\nc\n")


def listing(scripted):
    tool = {
        "name": "do",
        "description": "It does a thing that takes some words to describe.",
        "inputSchema": {"properties": {"first": {"type": "string"}, "second": {}}},
        "annotations": {"readOnlyHint": True},
    }
    return scripted({"tools": {}}, tools__list=[{"result": {"tools": [tool]}}])


def test_listing_fits_the_terminal_width_and_has_headings(terminal, scripted):
    assert run(terminal(30), "ls", listing(scripted).line) == (
        0,
        (
            "\x1b[1mTools (1)\x1b[0m\n"
            "  do(\n"
            "      first?: str,\n"
            "      second?: any,\n"
            "  )\x1b[2m  [read-only]\x1b[0m\n"
            "      It does a thing that\n"
            "      takes some words to\n"
            "      describe.\n"
        ),
    )


@pytest.mark.parametrize("env", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_terminal_without_styles_gets_plain_text(terminal, scripted, env):
    code, text = run(terminal(), "ls", listing(scripted).line, env=env)
    assert code == 0
    assert "\x1b" not in text


def test_demo_shows_a_live_progress_line(terminal):
    code, text = run(terminal(), "demo")
    assert code == 0
    assert "\r\x1b[K[#####...............]  25%  1/4" in text


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ((1, 4, None), "[#####...............]  25%  1/4"),
        ((0, 3, "x"), "[....................]   0%  0/3  x"),
        ((5, 4, None), "[####################] 100%  5/4"),
        ((-1, 4, None), "[....................]   0%  -1/4"),
        ((2.5, None, None), "2.5"),
        ((2, 0, None), "2"),
        ((2, -3, None), "2"),
        ((2, float("nan"), None), "2"),
        ((2, None, "a\nb"), "2  a\\nb"),
    ],
)
def test_progress_text_is_one_line(values, text):
    assert progress_text(*values) == text


def test_progress_line_redraws_are_rate_limited():
    stream = io.StringIO()
    line = ProgressLine(stream)
    for step in range(1000):
        line.show(step, 1000, None)
    line.show(1000, 1000, "end")
    line.clear()
    line.clear()
    written = stream.getvalue()
    assert written.count("\r") <= 10
    assert written.endswith("1000/1000  end\r\x1b[K")


@pytest.mark.parametrize(
    ("message", "shown"),
    [("x" * 200, "x" * 76), ("日" * 60, "日" * 38), ("日本", "日本")],
)
def test_progress_line_does_not_wrap(message, shown):
    stream = io.StringIO()
    ProgressLine(stream).show(0, None, message)
    assert stream.getvalue().removeprefix("\r\x1b[K0  ")[: len(shown)] == shown
    assert len(stream.getvalue().removeprefix("\r\x1b[K0  ")) <= len(shown) + 1


def test_missing_standard_streams_are_not_terminals(monkeypatch):
    monkeypatch.setattr("sys.stdout", None)
    monkeypatch.setattr("sys.stderr", None)
    output = Output()
    output.note("nobody hears it")
    assert (output.is_terminal, output.progress.is_live) == (False, False)
    assert output.width is None


def test_note_during_a_prompt_is_printed_above_it(monkeypatch):
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    output = Output()
    output.progress = ProgressLine(stream)
    with output.prompting("name > "):
        output.progress.show(1, 2, None)
        output.note("meanwhile")
    output.note("after")
    assert stream.getvalue() == "name > \r\x1b[Kmeanwhile\nname > after\n"
    output.progress.show(2, 2, None)
    assert "100%" in stream.getvalue()

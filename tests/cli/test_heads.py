"""With ``-v`` the heads of requests and responses are shown as curl shows them."""

import pytest

from mcpwire.cli.escape import head_lines
from mcpwire.cli.main import parse
from mcpwire.cli.output import Output
from mcpwire.cli.session import Session

REQUEST = "POST /mcp HTTP/1.1\r\nhost: host.example\r\nauthorization: ***\r\n\r\n"


def test_each_line_of_a_head_has_its_mark():
    assert head_lines("request", REQUEST) == [
        "> POST /mcp HTTP/1.1",
        "> host: host.example",
        "> authorization: ***",
    ]
    assert head_lines("response", "HTTP 200\nserver: x") == [
        "< HTTP 200",
        "< server: x",
    ]


class NoSignals:
    is_hurried = False


@pytest.fixture
def session():
    def make(*words):
        options = parse(["ping", "http://localhost:1/mcp", *words])
        output = Output(verbose=options.verbose > 0)
        return Session(options, output, NoSignals())

    return make


def told(session, capsys, *events):
    for event, data in events:
        session._trace(event, data)
    return [line[11:] for line in capsys.readouterr().err.splitlines()]


def test_heads_stand_below_each_other(session, capsys):
    lines = told(
        session("-v"),
        capsys,
        ("open", "http://localhost:1/mcp"),
        ("request", REQUEST),
        ("response", "HTTP 202\r\n"),
    )
    assert lines == [
        "opened http://localhost:1/mcp",
        "> POST /mcp HTTP/1.1",
        "> host: host.example",
        "> authorization: ***",
        "< HTTP 202",
    ]


@pytest.mark.attack("S32")
def test_a_head_drives_no_terminal(session, capsys):
    lines = told(
        session("-v"), capsys, ("response", "HTTP 200\r\nx: \x1b[2J\x9b\rgone")
    )
    assert lines == ["< HTTP 200", "< x: \\x1b[2J\\x9b\\rgone"]


def test_a_long_field_is_cut_unless_all_is_asked_for(session, capsys):
    head = ("response", f"HTTP 200\nx: {'y' * 2000}")
    assert "characters, -vv shows all" in told(session("-v"), capsys, head)[1]
    assert told(session("-vv"), capsys, head)[1] == f"< x: {'y' * 2000}"


def test_nothing_is_told_unasked(session, capsys):
    assert told(session(), capsys, ("request", REQUEST), ("open", "x")) == []

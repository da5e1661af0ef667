"""Reports and statuses of servers, as values and as text."""

import pytest

from mcpwire.errors import ConnectError, RPCError
from mcpwire.group.reports import Report, ServerStatus, format_error

GONE = ConnectError("x: no such file")


def test_report_is_true_if_all_servers_are_connected():
    assert Report(ok=("a",))
    assert Report()
    assert not Report(ok=("a",), failed={"b": GONE})


def test_report_raises_the_first_error():
    Report(ok=("a",)).raise_for_errors()
    with pytest.raises(ConnectError, match="no such file"):
        Report(failed={"b": GONE, "c": ValueError("other")}).raise_for_errors()


def test_report_text_has_a_line_for_each_server():
    report = Report(ok=("a", "c"), failed={"b": GONE}, seconds={"a": 0.25, "b": 1.0})
    assert str(report).splitlines() == [
        "a: connected in 0.250 s",
        "c: connected",
        "b: ConnectError: x: no such file",
    ]
    assert str(Report()) == "no servers"


def test_error_text_of_a_server_stays_on_one_line():
    error = RPCError("no\nCRITICAL all is lost\x1b[2J\u202e", code=-32000)
    assert format_error(error) == (
        "RPCError: no\\nCRITICAL all is lost\\x1b[2J\\u202e (JSON-RPC error -32000)"
    )
    assert len(str(Report(failed={"a": error}, ok=("b",))).splitlines()) == 2
    assert format_error(ConnectError("x" * 10_000)) == f"ConnectError: {'x' * 2_000}..."


def test_status_text_is_one_line():
    status = ServerStatus(server="a", state="ready", since=1.0, calls=3)
    assert str(status) == "a: ready, 3 call(s)"
    status = ServerStatus(
        server="a", state="restarting", since=1.0, error=GONE, restarts=2
    )
    assert str(status) == (
        "a: restarting (ConnectError: x: no such file), 0 call(s), 2 restart(s)"
    )

"""What a group says of its servers, as values and as text."""

import pytest

from mcpwire.errors import ConnectError
from mcpwire.protocol.many.reports import Report, ServerStatus

GONE = ConnectError("x: no such file")


def test_a_report_is_true_where_all_are_connected():
    assert Report(ok=("a",))
    assert Report()
    assert not Report(ok=("a",), failed={"b": GONE})


def test_a_report_raises_the_first_error():
    Report(ok=("a",)).raise_for_errors()
    with pytest.raises(ConnectError, match="no such file"):
        Report(failed={"b": GONE, "c": ValueError("other")}).raise_for_errors()


def test_a_report_has_a_line_for_each_server():
    report = Report(ok=("a", "c"), failed={"b": GONE}, seconds={"a": 0.25, "b": 1.0})
    assert str(report).splitlines() == [
        "a: connected in 0.250 s",
        "c: connected",
        "b: ConnectError: x: no such file",
    ]
    assert str(Report()) == "no servers"


def test_a_status_is_one_line():
    status = ServerStatus(server="a", state="ready", since=1.0, calls=3)
    assert str(status) == "a: ready, 3 call(s)"
    status = ServerStatus(
        server="a", state="restarting", since=1.0, error=GONE, restarts=2
    )
    assert str(status) == (
        "a: restarting (ConnectError: x: no such file), 0 call(s), 2 restart(s)"
    )

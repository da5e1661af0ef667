"""A blocking group connects in parallel, in threads that end, and tells the outcome."""

import _thread
import threading

import pytest
from able_servers import server as able_server
from fakes import FakeServer, text
from paced import Pace
from waiting import until

from mcpwire.errors import ConnectError, ConnectionClosed, LocalProtocolError
from mcpwire.group import Member, NotConnected
from mcpwire.protocol.many.errors import UnknownServer
from mcpwire.sync import Client, Group


def server(name="x", **members):
    """Return a server whose tools all say its name."""
    return FakeServer({"tools/call": lambda *_: text(name)}, **members)


def servers(names):
    """Return a server for each letter."""
    return {name: server(name) for name in names}


def ours():
    """Return the names of the threads of groups."""
    return [t.name for t in threading.enumerate() if t.name == "mcpwire-group"]


@pytest.fixture
def pace():
    return Pace()


def test_servers_are_connected_and_called_by_name():
    with Group(servers("ab")) as group:
        assert list(group) == ["a", "b"]
        assert len(group) == 2
        assert "a" in group
        assert "c" not in group
        assert group.call_tool("a", "x").text == "a"
        assert group["b"].call_tool("x").text == "b"
        assert repr(group) == "<mcpwire.sync.Group a ready, b ready>"
    assert len(group) == 0
    assert bool(group)


def test_servers_are_connected_at_the_same_time(pace):
    pace.meeting = threading.Barrier(4)
    with Group(servers("abcd"), make_client=pace) as group:
        assert group.report.ok == ("a", "b", "c", "d")
    assert pace.at_once == 4


def test_no_more_are_connected_at_once_than_was_said_and_no_thread_stays(pace):
    with Group(servers("abcdefgh"), concurrency=3, make_client=pace) as group:
        assert len(group) == 8
        assert pace.at_once <= 3
        assert pace.threads == {"mcpwire-group"}
        assert ours() == []


def test_no_more_are_connected_at_once_where_their_tools_are_wanted(pace):
    able = {name: able_server() for name in "abcdefgh"}
    with Group(able, concurrency=2, start="lazy", make_client=pace) as group:
        assert len(group.tools()) == 8
        assert pace.at_once <= 2
        assert len(pace.order) == 8


def test_another_target_takes_the_place_of_one_that_is_not_connected():
    with Group({"a": server("first")}, start="lazy") as group:
        assert group.connect_all({"a": server("second")}).ok == ("a",)
        assert group.call_tool("a", "x").text == "second"


def test_a_function_of_one_server_that_fails_costs_the_others_nothing():
    class Broken(Client):
        def list_tools(self, **_):
            raise OSError("the function of the headers found no token")

    def make(name, target, **options):
        return (Broken if name == "a" else Client)(target, **options)

    able = {name: able_server() for name in "ab"}
    with Group(able, make_client=make) as group:
        tools = group.tools()
        assert tools.names == ("mcp__b__x",)
        problem = tools.problems["a"]
        assert str(problem) == "OSError: the function of the headers found no token"
        assert isinstance(problem.__cause__, OSError)


@pytest.mark.parametrize(("names", "concurrency"), [("a", 8), ("abc", 1)])
def test_what_needs_no_thread_is_done_in_the_calling_one(pace, names, concurrency):
    with Group(servers(names), concurrency=concurrency, make_client=pace):
        assert pace.threads == {threading.current_thread().name}
        assert pace.order == list(names)


def test_where_no_thread_can_be_had_the_calling_one_does_it_all(pace, monkeypatch):
    start = threading.Thread.start

    def refuse(thread):
        if thread.name == "mcpwire-group":
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", refuse)
    with Group(servers("ab"), make_client=pace) as group:
        assert len(group) == 2
        assert pace.threads == {threading.current_thread().name}


def test_one_that_fails_ends_it_all(pace):
    pace.failing = {"b"}
    group = Group(servers("ab"), make_client=pace)
    with pytest.raises(ConnectError, match="no b today") as caught:
        group.connect_all()
    assert caught.value.__notes__ == ["connecting the server 'b' of a group"]
    assert list(group) == []
    assert group.report.failed == {"b": caught.value}
    assert ours() == []


def test_one_that_fails_ends_the_connecting_of_one_that_hangs(pace):
    pace.failing = {"a"}
    pace.hold.clear()
    group = Group(servers("abc"), make_client=pace)
    with pytest.raises(ConnectError, match="no a today"):
        group.connect_all()
    assert list(group.report.failed) == ["a"]
    assert ours() == []


def test_of_several_that_fail_at_once_the_first_by_order_is_raised(pace):
    pace.failing = {"a", "b"}
    pace.meeting = threading.Barrier(2)
    group = Group(servers("ab"), make_client=pace)
    with pytest.raises(ConnectError, match=r"no [ab] today") as caught:
        group.connect_all()
    first = min(group.report.failed)
    assert caught.value is group.report.failed[first]


@pytest.mark.system("V10")
def test_one_that_fails_can_be_left_out_and_is_reported(pace, caplog):
    pace.failing = {"b"}
    with Group(servers("abc"), on_error="skip", make_client=pace) as group:
        report = group.report
        assert report.ok == ("a", "c")
        assert list(report.failed) == ["b"]
        assert set(report.seconds) == {"a", "b", "c"}
        assert not report
        assert group.problems == report.failed
        assert group.status()["b"].state == "failed"
        with pytest.raises(NotConnected, match="ConnectError: no b today"):
            group["b"]
        (record,) = [r for r in caplog.records if r.levelname == "WARNING"]
        assert record.server == "b"
        pace.failing = set()
        again = group.connect_all()
        assert again.ok == ("b",)
        assert group.problems == {}


def test_a_function_decides_what_a_failure_means(pace):
    pace.failing = {"b", "c"}
    heard = []

    def judge(name, error):
        heard.append(name)
        if name == "c":
            raise RuntimeError(f"not without {name}") from error

    group = Group(servers("abc"), on_error=judge, concurrency=1, make_client=pace)
    with pytest.raises(RuntimeError, match="not without c"):
        group.connect_all()
    assert heard == ["b", "c"]
    assert list(group) == []


def test_a_function_that_gives_something_to_be_awaited_is_an_error(pace):
    class Later:
        def __call__(self, *_):
            async def judge():
                """Never runs."""

            return judge()

    pace.failing = {"a"}
    group = Group(servers("a"), on_error=Later(), make_client=pace)
    with pytest.raises(LocalProtocolError, match="on_error must be a plain function"):
        group.connect_all()


async def _later(*_):
    """Be what nobody here could await."""


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"on_error": _later}, "on_error"),
        ({"on_notification": _later}, "on_notification"),
        ({"sampling": _later}, "sampling"),
        ({"concurrency": 0}, "concurrency"),
        ({"timeout": 0}, "timeout"),
        ({"connect_timeout": float("nan")}, "connect_timeout"),
        ({"start": "tomorrow"}, "start"),
        ({"servers": {"": "x"}}, "name"),
        ({"servers": {"a": Member("x", elicitation=_later)}}, "elicitation"),
    ],
)
def test_an_argument_out_of_its_range_is_refused_by_name(options, named):
    with pytest.raises(ValueError, match=named):
        Group(**options)


@pytest.mark.parametrize("name", ["idle", "restart", "colour"])
def test_what_needs_a_loop_is_no_argument(name):
    with pytest.raises(TypeError, match=f"unexpected keyword argument '{name}'"):
        Group(**{name: 1})


def test_an_interrupt_undoes_all_of_it(pace):
    pace.hold.clear()
    group = Group(servers("abc"), make_client=pace)
    threading.Thread(
        target=lambda: (until(lambda: pace.busy == 3), _thread.interrupt_main())
    ).start()
    with pytest.raises(KeyboardInterrupt):
        group.connect_all()
    assert ours() == []
    assert list(group) == []
    assert group.report.ok == ()
    pace.hold.set()
    assert group.connect_all().ok == ("a", "b", "c")
    group.close()


def test_an_interrupt_closes_what_was_connected_already(pace):
    def judge(name, error):
        raise KeyboardInterrupt

    pace.failing = {"b"}
    group = Group(servers("ab"), on_error=judge, concurrency=1, make_client=pace)
    with pytest.raises(KeyboardInterrupt):
        group.connect_all()
    assert list(group) == []
    assert group.status()["a"].state == "idle"


# One by one...


def test_a_server_joins_and_leaves():
    with Group(servers("a")) as group:
        client = group.connect("b", server("B"))
        assert client is group["b"]
        assert list(group) == ["a", "b"]
        group.disconnect("b")
        assert list(group) == ["a"]
        group.disconnect("b")
        group.disconnect("never")
        assert group.connect_all({"d": server("D")}).ok == ("d",)
        with pytest.raises(NotConnected, match="not connected"):
            group["b"]
        group.connect("b")
        assert group.call_tool("b", "x").text == "B"
        with pytest.raises(UnknownServer):
            group.connect("c")


def test_a_name_that_is_taken_is_taken_over_on_request_only():
    with Group(servers("a")) as group:
        first = group["a"]
        for target in (None, server("B")):
            with pytest.raises(LocalProtocolError, match="replace=True"):
                group.connect("a", target)
        with pytest.raises(LocalProtocolError, match="replace=True"):
            group.connect_all({"a": server("B")})
        second = group.connect("a", server("B"), replace=True)
        assert not first.is_connected
        assert second.call_tool("x").text == "B"


def test_one_server_has_options_of_its_own():
    with Group({"a": Member(server(), timeout=7)}, timeout=3) as group:
        assert group["a"]._requests._timeout == 7
        group.connect("b", server(), timeout=None)
        assert group["b"]._requests._timeout is None
        group.connect("c", server())
        assert group["c"]._requests._timeout == 3


def test_a_server_that_is_not_enabled_is_connected_on_request():
    with Group({"a": Member(server("a"), enabled=False)}) as group:
        assert list(group) == []
        group.connect("a")
        assert list(group) == ["a"]


def test_who_connects_at_the_same_time_shares_the_outcome(pace):
    pace.hold.clear()
    group = Group(servers("a"), make_client=pace)
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(group.connect("a")))
        for _ in range(2)
    ]
    threads[0].start()
    until(lambda: pace.busy == 1)
    threads[1].start()
    until(lambda: pace.busy == 2)
    with pytest.raises(LocalProtocolError, match="connected already"):
        group.connect("a", server())
    pace.hold.set()
    for thread in threads:
        thread.join(30)
    assert len(set(found)) == 1
    assert len(found) == 2
    group.close()


def test_a_failure_of_one_server_is_told_to_whoever_connects_it(pace):
    pace.failing = {"a"}
    group = Group(servers("a"), make_client=pace)
    with pytest.raises(ConnectError, match="no a today"):
        group.connect("a")
    assert group.status()["a"].state == "failed"


def test_disconnecting_wins_over_a_connecting_under_way(pace):
    pace.hold.clear()
    group = Group(servers("a"), make_client=pace)
    caught = []

    def connect():
        try:
            group.connect("a")
        except ConnectionClosed as error:
            caught.append(error)

    thread = threading.Thread(target=connect)
    thread.start()
    until(lambda: pace.busy == 1)
    group.disconnect("a")
    thread.join(30)
    assert [str(error) for error in caught] == [
        "the server 'a' was disconnected while connecting"
    ]
    assert group.status()["a"].state == "idle"


def test_a_server_that_is_disconnected_is_no_failure_of_connecting_all(pace):
    pace.hold.clear()
    group = Group(servers("ab"), make_client=pace)
    reports = []
    thread = threading.Thread(target=lambda: reports.append(group.connect_all()))
    thread.start()
    until(lambda: pace.busy == 2)
    group.disconnect("a")
    pace.hold.set()
    thread.join(30)
    assert reports[0].ok == ("b",)
    assert list(reports[0].failed) == ["a"]
    group.close()


def test_a_seat_that_left_before_it_was_its_turn_is_not_opened(pace):
    group = Group(servers("a"), make_client=pace)
    seat = group._take_seat("a")
    seat.leave()
    with pytest.raises(ConnectionClosed, match="disconnected while connecting"):
        seat.connect()
    assert pace.order == []


def test_a_connection_that_comes_too_late_is_closed_again(pace):
    group = Group(servers("a"), make_client=pace)
    seat = group._take_seat("a")
    pace.meeting = threading.Barrier(1, action=seat.leave)
    with pytest.raises(ConnectionClosed, match="disconnected while connecting"):
        seat.connect()
    assert not seat.client.is_connected


def test_an_interrupt_while_one_is_connected_leaves_nothing(pace):
    group = Group(servers("a"), make_client=pace)

    def interrupt():
        raise KeyboardInterrupt

    for name, target in (("a", None), ("new", server())):
        pace.meeting = threading.Barrier(1, action=interrupt)
        with pytest.raises(KeyboardInterrupt):
            group.connect(name, target)
    assert list(group) == []
    assert [status.state for status in group.status().values()] == ["idle"]


# The end...


def test_all_are_closed_and_the_first_error_is_raised(pace, caplog):
    group = Group(servers("abcd"), make_client=pace)
    group.connect_all()
    pace.broken = {"b", "c"}
    with pytest.raises(ConnectError, match="b cannot be closed"):
        group.disconnect_all()
    assert list(group) == []
    assert {status.state for status in group.status().values()} == {"idle"}
    failed = [r.server for r in caplog.records if "disconnecting" in r.message]
    assert sorted(failed) == ["b", "c"]


def test_an_error_of_closing_does_not_hide_what_ended_the_body(pace, caplog):
    pace.broken = {"a"}
    with pytest.raises(ZeroDivisionError), Group(servers("a"), make_client=pace):
        raise ZeroDivisionError
    assert "closing failed" in caplog.text
    with pytest.raises(ConnectError), Group(servers("a"), make_client=pace):
        pass
    group = Group(servers("a"), make_client=pace)
    group.connect_all()
    with pytest.raises(ConnectError):
        group.disconnect("a")


def test_replacing_one_that_cannot_be_closed_goes_on(pace, caplog):
    with Group(servers("a"), make_client=pace) as group:
        pace.broken = {"a"}
        group.connect("a", replace=True)
        assert group.call_tool("a", "x").text == "a"
        pace.broken = set()
    assert "closing failed" in caplog.text


def test_what_was_to_be_replaced_is_closed_with_what_replaces_it(pace):
    group = Group(servers("a"), make_client=pace)
    old = group.connect("a")
    group._take_seat("a")
    group.close()
    assert not old.is_connected


def test_a_group_can_be_closed_twice_and_connected_again():
    group = Group(servers("ab"))
    with group:
        pass
    group.close()
    with group:
        assert group.call_tool("a", "x").text == "a"


def test_an_interrupt_while_closing_waits_for_no_server(pace, monkeypatch):
    group = Group(servers("ab"), make_client=pace)
    group.connect_all()
    closing = threading.Event()
    go_on = threading.Event()
    abandoned = []

    def close(client):
        closing.set()
        assert go_on.wait(30)

    monkeypatch.setattr("paced.Paced.close", close)
    seats = list(group._seats.values())
    for seat in seats:
        real = seat.client._connection.abandon

        def abandon(real=real):
            abandoned.append(real())
            go_on.set()

        monkeypatch.setattr(seat.client._connection, "abandon", abandon)
    threading.Thread(
        target=lambda: (closing.wait(30), _thread.interrupt_main())
    ).start()
    with pytest.raises(KeyboardInterrupt):
        group.close()
    assert len(abandoned) >= 2
    assert ours() == []


def test_a_call_whose_server_leaves_just_then_says_so():
    class Leaving(Client):
        def call_tool(self, *args, **options):
            group.disconnect("a")
            return super().call_tool(*args, **options)

    make = lambda _, target, **options: Leaving(target, **options)  # noqa: E731 - short
    with Group({"a": server()}, make_client=make) as group:
        with pytest.raises(ConnectionClosed, match="'a' was disconnected") as caught:
            group.call_tool("a", "x")
        assert caught.value.sent is False

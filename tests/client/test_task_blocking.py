"""Tasks without a loop: the same calls and functions, in the threads that call them."""

import contextlib
import sys
import threading
import time
from pathlib import Path

import pytest
from fakes import SILENCE

import mcpwire
from mcpwire.protocol.methods import TASKS
from mcpwire.sync._made.requests import Requests

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "over_http"))

from hosting import hosted
from task_server import DONE, FORM, TaskServer, needs, standing

BOUND_S = 30.0
ID = "t-1"
WORKING = standing("working")
HOUR_S = 3_600
SLOW = standing("working", pollIntervalMs=HOUR_S * 1_000)
ANSWER = {"action": "accept", "content": {"name": "Ada"}}

everywhere = pytest.mark.parametrize("place", ["memory", "http"])


@contextlib.contextmanager
def connected(server, place="memory", **options):
    """Give a blocking client of a server, in memory or over HTTP."""
    options = {"extensions": [TASKS], "timeout": BOUND_S, **options}
    with contextlib.ExitStack() as stack:
        target = server
        if place == "http":
            target = stack.enter_context(hosted(server, "json")).url
        yield stack.enter_context(mcpwire.sync.Client(target, **options))


def wait_until(predicate):
    """Look until it is true, for so long at most."""
    end = time.monotonic() + BOUND_S
    while not predicate():
        assert time.monotonic() < end
        time.sleep(0.002)  # the server has no event for it


@pytest.fixture
def pauses(monkeypatch):
    """Note how long each pause before a look is to be, as it begins."""
    begun = []
    sleep = Requests._sleep

    def noted(self, method, seconds, deadline):
        begun.append(seconds)
        sleep(self, method, seconds, deadline)

    monkeypatch.setattr(Requests, "_sleep", noted)
    return begun


@pytest.fixture
def short_from_then_on(monkeypatch):
    """Let calls have little time left, but only from when their tasks are known."""
    sleep = Requests._sleep

    def shortened(self, method, seconds, deadline):
        deadline.at = min(deadline.at, self._connection.time() + 0.05)
        sleep(self, method, seconds, deadline)

    monkeypatch.setattr(Requests, "_sleep", shortened)


@pytest.mark.rule("TX-03", "TX-11")
@everywhere
def test_a_call_that_becomes_a_task_gives_the_result_all_the_same(place):
    server = TaskServer(WORKING, DONE)
    with connected(server, place) as c:
        assert c.call_tool("train").text == "done"

    assert server.methods_received == ["tools/call", "tasks/get", "tasks/get"]


@pytest.mark.rule("TX-12", "TX-13")
@everywhere
def test_what_a_task_asks_is_answered_once_by_the_handler_of_any_call(place):
    asked = []
    server = TaskServer(needs(a=FORM), needs(a=FORM), DONE)

    def fill_in(form):
        asked.append(form.message)
        return {"name": "Ada"}

    with connected(server, place, elicitation=fill_in) as c:
        assert c.call_tool("train").text == "done"

    assert asked == ["Who?"]
    assert server.told("tasks/update") == [
        {"taskId": ID, "inputResponses": {"a": ANSWER}}
    ]


@pytest.mark.rule("TX-16")
@everywhere
@pytest.mark.parametrize("shown", [SLOW, SILENCE])
@pytest.mark.usefixtures("short_from_then_on")
def test_a_call_that_runs_out_of_time_takes_its_task_back(place, shown):
    server = TaskServer(shown, created=SLOW if shown is SLOW else None)
    with connected(server, place) as c:
        with pytest.raises(mcpwire.RequestTimeout):
            c.call_tool("train")
        wait_until(lambda: server.told("tasks/cancel"))

    assert server.told("tasks/cancel") == [{"taskId": ID}]


@pytest.mark.rule("TX-16")
@everywhere
@pytest.mark.parametrize("shown", [SLOW, SILENCE])
@pytest.mark.usefixtures("short_from_then_on")
def test_a_task_is_taken_back_also_where_the_client_is_closed_at_once(place, shown):
    server = TaskServer(shown, created=SLOW if shown is SLOW else None)
    with (
        pytest.raises(mcpwire.RequestTimeout),
        connected(server, place) as c,
    ):
        c.call_tool("train")

    wait_until(lambda: server.told("tasks/cancel"))


@pytest.mark.rule("TX-16")
@everywhere
def test_a_started_call_that_is_cancelled_between_two_looks_takes_its_task_back(
    place, pauses
):
    server = TaskServer(SLOW)
    with connected(server, place) as c:
        call = c.start_call("train")
        wait_until(lambda: HOUR_S in pauses)  # until its next look
        call.cancel("no longer needed")
        with pytest.raises(mcpwire.CallCancelled, match="no longer needed"):
            call.result(timeout=BOUND_S)
        wait_until(lambda: server.told("tasks/cancel"))
        assert server.told("notifications/cancelled") == []

    assert len(server.told("tasks/cancel")) == 1


@pytest.mark.rule("TX-16")
def test_a_started_call_that_is_cancelled_during_a_look_takes_its_task_back():
    server = TaskServer(SILENCE)
    with connected(server) as c:
        call = c.start_call("train")
        wait_until(lambda: server.told("tasks/get"))
        call.cancel("no longer needed")
        with pytest.raises(mcpwire.CallCancelled, match="no longer needed"):
            call.result(timeout=BOUND_S)
        wait_until(lambda: server.told("tasks/cancel"))

    assert len(server.told("tasks/cancel")) == 1


@pytest.mark.rule("TX-16")
@everywhere
def test_ctrl_c_takes_the_task_back(place):
    def interrupted(_):
        raise KeyboardInterrupt

    server = TaskServer(needs(a=FORM))
    with connected(server, place, elicitation=interrupted) as c:
        with pytest.raises(KeyboardInterrupt):
            c.call_tool("train")
        wait_until(lambda: server.told("tasks/cancel"))

    assert server.told("tasks/update") == []


def test_closing_ends_the_wait_and_leaves_the_task_alone(pauses):
    server = TaskServer(SLOW, created=SLOW)
    caught = []
    with connected(server) as c:

        def call():
            try:
                c.call_tool("train")
            except mcpwire.MCPError as error:
                caught.append(error)

        thread = threading.Thread(target=call)
        thread.start()
        wait_until(lambda: pauses)  # it is answered, and waits for its first look
        c.close()
        thread.join(BOUND_S)

    (error,) = caught
    assert type(error) is mcpwire.ConnectionClosed
    assert "closed by this side" in str(error)
    assert server.methods_received == ["tools/call"]


@pytest.mark.rule("TX-11")
@everywhere
def test_a_task_is_begun_looked_at_answered_cancelled_and_waited_for(place):
    shown = [WORKING, needs(a=FORM), DONE]
    server = TaskServer(*shown)
    with connected(server, place) as c:
        task = mcpwire.sync.start_task(c, "train", {"epochs": 3})
        assert (task.task_id, task.status) == (ID, "working")
        assert mcpwire.sync.get_task(c, ID).status == "working"
        assert list(mcpwire.sync.get_task(c, ID).input_requests) == ["a"]
        mcpwire.sync.update_task(c, ID, {"a": ANSWER})
        assert mcpwire.sync.wait_for_task(c, task).text == "done"
        mcpwire.sync.cancel_task(c, ID)
        with pytest.raises(mcpwire.LocalProtocolError, match="no tasks/list at"):
            mcpwire.sync.list_tasks(c)

    update = {"taskId": ID, "inputResponses": {"a": ANSWER}}
    assert server.told("tasks/update") == [update]
    assert server.told("tasks/cancel") == [{"taskId": ID}]


def ask_on_behalf(server):
    """Give a tool that asks, to a server of ours."""

    @server.tool(task="required")
    async def order(ctx: mcpwire.Context) -> str:
        answer = await ctx.elicit("What may we bring you?", str)
        return f"one {answer.value}, please"


@pytest.mark.rule("T11-08", "T11-03", "T11-09")
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_a_server_of_ours_runs_tasks_for_a_client_without_a_loop(version):
    server = mcpwire.Server("demo", extensions=[mcpwire.Tasks(poll_interval=0.01)])
    ask_on_behalf(server)
    options = {"mode": version, "elicitation": lambda _: {"value": "tea"}}
    with connected(server, **options) as c:
        task = mcpwire.sync.start_task(c, "order", ttl=60.0)
        assert mcpwire.sync.wait_for_task(c, task).text == "one tea, please"

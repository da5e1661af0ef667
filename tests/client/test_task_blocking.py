"""Tasks with the blocking client: the same functions, and Ctrl-C."""

import threading
import time

import pytest
from ctrl_c import interrupting
from hosting import hosted
from task_server import DONE, FORM, TaskServer, needs, task_state

import mcpwire
import mcpwire.sync
from mcpwire.protocol.methods import TASKS

BOUND_S = 30.0
ID = "t-1"
WORKING = task_state("working")
ANSWER = {"action": "accept", "content": {"name": "Ada"}}


def connected(target, **options):
    options = {"extensions": [TASKS], "timeout": BOUND_S, **options}
    return mcpwire.sync.Client(target, **options)


def wait_until(predicate):
    """Poll until the predicate is true, for `BOUND_S` at most."""
    end = time.monotonic() + BOUND_S
    while not predicate():
        assert time.monotonic() < end
        time.sleep(0.002)  # the server has no event for it


@pytest.mark.rule("TX-12", "TX-13")
def test_input_of_a_task_is_answered_by_a_handler_in_a_thread():
    calls = []

    def fill_in(form):
        calls.append((form.message, threading.current_thread()))
        return {"name": "Ada"}

    server = TaskServer(needs(a=FORM), DONE)
    with hosted(server, "json") as http, connected(http.url, elicitation=fill_in) as c:
        assert c.call_tool("train").text == "done"
    ((message, thread),) = calls
    assert message == "Who?"
    assert thread is not threading.main_thread()


@pytest.mark.rule("TX-16")
@pytest.mark.parametrize("place", ["memory", "http"])
def test_ctrl_c_cancels_the_task(place):
    server = TaskServer(needs(a=FORM))

    def interrupt_and_fill(_):
        interrupt()
        return {"name": "too late"}

    with hosted(server, "json") as http, interrupting() as interrupt:
        target = server if place == "memory" else http.url
        with (
            connected(target, elicitation=interrupt_and_fill) as c,
            pytest.raises(KeyboardInterrupt),
        ):
            c.call_tool("train")
        wait_until(lambda: server.params_of("tasks/cancel"))
    assert server.params_of("tasks/update") == []


@pytest.mark.rule("TX-11")
def test_the_blocking_task_functions_send_their_requests():
    server = TaskServer(WORKING, needs(a=FORM), DONE)
    with connected(server) as c:
        task = mcpwire.sync.start_task(c, "train", {"epochs": 3})
        assert (task.task_id, task.status) == (ID, "working")
        assert mcpwire.sync.get_task(c, ID).status == "working"
        assert list(mcpwire.sync.get_task(c, ID).input_requests) == ["a"]
        mcpwire.sync.update_task(c, ID, {"a": ANSWER})
        assert mcpwire.sync.wait_for_task(c, task).text == "done"
        mcpwire.sync.cancel_task(c, ID)
        with pytest.raises(mcpwire.LocalProtocolError, match="has no tasks/list"):
            mcpwire.sync.list_tasks(c)
    update = {"taskId": ID, "inputResponses": {"a": ANSWER}}
    assert server.params_of("tasks/update") == [update]
    assert server.params_of("tasks/cancel") == [{"taskId": ID}]


@pytest.mark.rule("T11-08", "T11-03", "T11-09")
@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_a_blocking_client_runs_tasks_of_our_server(version):
    server = mcpwire.Server("demo", extensions=[mcpwire.Tasks(poll_interval=0.01)])
    add_asking_tool(server)
    options = {"mode": version, "elicitation": lambda _: {"value": "tea"}}
    with connected(server, **options) as c:
        task = mcpwire.sync.start_task(c, "order", ttl=60.0)
        assert mcpwire.sync.wait_for_task(c, task).text == "one tea, please"


def add_asking_tool(server):
    """Add a tool that elicits input to a server."""

    @server.tool(task="required")
    async def order(ctx: mcpwire.Context) -> str:
        answer = await ctx.elicit("What may we bring you?", str)
        return f"one {answer.value}, please"

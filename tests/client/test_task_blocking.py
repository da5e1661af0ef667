"""Tasks with the blocking client: the same functions, and Ctrl-C."""

import pytest
from ctrl_c import interrupting
from hosting import hosted
from task_server import DONE, FORM, TaskServer, needs, task_state
from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync
from mcpwire.protocol.methods import TASKS

ID = "t-1"
WORKING = task_state("working")
ANSWER = {"action": "accept", "content": {"name": "Ada"}}


def connected(target, **options):
    options = {"extensions": [TASKS], "timeout": BOUND_S, **options}
    return mcpwire.sync.Client(target, **options)


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
        until(lambda: server.params_of("tasks/cancel"))
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

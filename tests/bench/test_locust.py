"""Locust users that call MCP servers from several processes."""

import json
import shlex
import subprocess
import sys
from contextlib import ExitStack

import ports

from mcpwire.bench.null_process import null_command, null_process

TIMEOUT_S = 50

LOCUSTFILE = """
import gevent
from locust import events, task
from locust.exception import StopUser
from locust.runners import MasterRunner
from mcpwire.bench.locust import McpUser

class Caller(McpUser):
    @task
    def work(self):
        for _ in range(10):
            assert self.call_tool("echo", {"text": "hi"}).text == "hello"
            assert [tool.name for tool in self.list_tools()] == ["echo"]
        raise StopUser

def quit_when_all_is_reported(environment):
    while environment.stats.total.num_requests < 4 * 21:
        gevent.sleep(0.05)  # between two looks at the counts
    environment.runner.quit()

@events.init.add_listener
def begin(environment, **_):
    if isinstance(environment.runner, MasterRunner):
        gevent.spawn(quit_when_all_is_reported, environment)
"""

EVENTS = """
import json, os, signal, sys
from locust.env import Environment
from mcpwire.bench import locust

class Caller(locust.McpUser):
    target = sys.argv[1]
    options = json.loads(sys.argv[2])

environment = Environment(user_classes=[Caller])
events = []

def note(request_type, name, response_time, response_length, exception, **_):
    assert response_time >= 0
    what = exception and f"{type(exception).__name__}: {exception}"
    events.append([request_type, name, response_length, what])

environment.events.request.add_listener(note)
one, two = Caller(environment), Caller(environment)
"""

SERVER = """
import mcpwire, sys
server = mcpwire.Server("s", "1")

@server.tool
def fail() -> str:
    raise mcpwire.ToolError("no such thing")

@server.tool
def leave() -> str:
    import os
    os._exit(3)

server.run()
"""


def events_of(target, *script, options=None):
    """Run users by a script in a child process; return the events."""
    text = "\n".join([EVENTS, *script, "print(json.dumps(events))"])
    command = [sys.executable, "-c", text, target, json.dumps(options or {})]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_master_and_two_workers_count_the_same_as_the_server(tmp_path):
    file, record = tmp_path / "locustfile.py", tmp_path / "record"
    file.write_text(LOCUSTFILE)
    locust = [sys.executable, "-m", "locust", "-f", str(file), "--headless"]
    with ExitStack() as stack:
        server = stack.enter_context(null_process("--record", str(record)))
        port = str(stack.enter_context(ports.kept_port()))
        several = ["--host", server.url, "--json"]
        master = [
            "--master",
            "--master-bind-host",
            "127.0.0.1",
            "--expect-workers",
            "2",
        ]
        master += ["--master-bind-port", port, "-u", "4", "-r", "100"]
        worker = ["--worker", "--master-host", "127.0.0.1", "--master-port", port]
        children = [
            stack.enter_context(
                subprocess.Popen(
                    [*locust, *several, *words],
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    text=True,
                )
            )
            for words in (master, worker, worker)
        ]
        for child in children:
            stack.callback(child.kill)
        outputs = [child.communicate(timeout=TIMEOUT_S) for child in children]
    assert [child.returncode for child in children] == [0, 0, 0], outputs
    stats = {each["name"]: each for each in json.loads(outputs[0][0])}
    assert [each["num_failures"] for each in stats.values()] == [0] * len(stats)
    sent = json.loads(record.read_text())["methods"]
    counts = {name: each["num_requests"] for name, each in stats.items()}
    assert counts == {"connect": 4, "tools/call echo": 40, "tools/list": 40}
    assert sent == {"server/discover": 4, "tools/call": 40, "tools/list": 40}


def test_each_user_has_a_session_and_each_call_an_event():
    target = shlex.join(null_command("--stdio", "--legacy", "--bytes", "100"))
    calls = """
for user in (one, two):
    user.ping()
    [tool] = user.list_tools()
    result = user.call_tool(tool.name, {"text": "hi"})
    assert result.text == "x" * 100
    user.on_stop()
one.ping()
error = locust.McpUser._child.request(99, "ping").error
assert error.args == ("this user is not connected",)
"""
    expected = [
        ["MCP", "connect", 0, None],
        ["MCP", "ping", 0, None],
        ["MCP", "tools/list", 123, None],
        ["MCP", "tools/call echo", 139, None],
    ]
    assert events_of(target, calls) == [*expected * 2, *expected[:2]]


def test_events_contain_failures(tmp_path):
    program = tmp_path / "server.py"
    program.write_text(SERVER)
    calls = """
assert one.call_tool("fail").is_error
assert one.call_tool("leave") is None
assert two.call_tool("fail").is_error
"""
    target = shlex.join([sys.executable, str(program)])
    first, fail, leave, reconnect, fail_again = events_of(target, calls)
    assert first == reconnect == ["MCP", "connect", 0, None]
    assert fail == fail_again
    assert fail[:2] == ["MCP", "tools/call fail"]
    assert fail[2] > 0
    assert fail[3] == "ToolError: no such thing"
    assert leave[:3] == ["MCP", "tools/call leave", 0]
    assert leave[3].startswith("ConnectionClosed: ")


def test_stop_closes_a_session_that_is_being_opened(tmp_path):
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    server = f"open({str(begun)!r}, 'w'); __import__('sys').stdin.read()"
    server += f"; open({str(ended)!r}, 'w')"
    calls = f"""
import gevent
connecting = gevent.spawn(one.connect)
while not os.path.exists({str(begun)!r}):
    gevent.sleep(0.01)  # between two looks at the file
connecting.kill()
one.on_stop()
events.append(os.path.exists({str(ended)!r}))
"""
    target = shlex.join([sys.executable, "-c", server])
    assert events_of(target, calls) == [True]


def test_each_call_retries_the_connection_to_an_absent_server():
    calls = """
assert one.call_tool("echo") is None
assert one.list_tools() is None
"""
    events = events_of("http://127.0.0.1:1/mcp", calls)
    assert [each[:3] for each in events] == [["MCP", "connect", 0]] * 2
    assert all(each[3].startswith("ConnectError: ") for each in events)


def test_calls_fail_after_the_child_process_has_ended():
    calls = """
one.ping()
os.kill(locust.McpUser._child._process.pid, signal.SIGKILL)
one.ping()
one.ping()
"""
    events = events_of(shlex.join(null_command("--stdio")), calls)
    lost = "ConnectionClosed: the process that makes the calls ended"
    assert events == [
        ["MCP", "connect", 0, None],
        ["MCP", "ping", 0, None],
        ["MCP", "ping", 0, lost],
        ["MCP", "ping", 0, lost],
    ]

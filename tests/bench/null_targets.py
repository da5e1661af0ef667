"""The null server as a target, programs that run it, and a client that calls it."""

import sys
from textwrap import indent

from mcpwire import Stdio
from mcpwire.bench.null_process import null_command

NULL_SERVER = f"""
import runpy, sys
sys.argv = ["null.py", "--stdio"]
runpy.run_path({null_command()[-1]!r}, run_name="__main__")
"""
"""A program that runs the null server in its own process."""

CLIENT = """
import sys
from mcpwire.sync import Client
with Client(sys.argv[1]) as client:
    for _ in range(20):
        client.call_tool("echo", {"text": "hi"})
"""
CLIENT_COMMAND = [sys.executable, "-c", CLIENT, "{target}"]

RELAY = """
import json, os, subprocess, sys, time
null = subprocess.Popen({command!r}, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
calls = 0
for line in sys.stdin.buffer:
    value = json.loads(line)
    is_call = value.get("method") == {method!r}
    calls += is_call
    if is_call and calls == 3:
{third}
    null.stdin.write(line)
    null.stdin.flush()
    if "id" in value:
        sys.stdout.buffer.write(null.stdout.readline())
        sys.stdout.flush()
"""


def null(*options):
    """Return the null server as a target."""
    command, *arguments = null_command("--stdio", *options)
    return Stdio(command, arguments)


def program(*parts, arguments=()):
    """Return a target that is a program of these parts."""
    return Stdio(sys.executable, ["-c", "\n".join(parts), *arguments])


def relay(method, third, *arguments):
    """Return a relay to the null server; at the third call it first runs a code."""
    command = null_command("--stdio", "--legacy")
    text = RELAY.format(command=command, method=method, third=indent(third, " " * 8))
    return program(text, arguments=arguments)

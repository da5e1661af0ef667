"""Writes to stdout while a server runs on it: only messages leave the process."""

import contextlib
import json
import re
import subprocess
import threading

import pytest
from raw_client import modern
from wires import child, send

TIMEOUT_S = 30.0

NOISY = r"""
import asyncio, atexit, ctypes, faulthandler, logging, multiprocessing, os, subprocess
import sys, threading, time, traceback, warnings
print("before")
from mcpwire import Server
server = Server("noisy")
libc = ctypes.CDLL(None)
logging.basicConfig(stream=sys.stdout, level=logging.INFO)
kept = sys.stdout
raw = os.fdopen(1, "wb", buffering=0, closefd=False)

def printed(): print("noise", flush=True)
def buffered(): print("noise")
def original(): print("noise", file=sys.__stdout__, flush=True)
def before_import(): kept.write("noise\n"); kept.flush()
def to_buffer(): sys.stdout.buffer.write(b"noise\xff\n"); sys.stdout.buffer.flush()
def half_a_line(): os.write(1, b'{"jsonrpc":"2.0","id":')
def by_number(): os.write(1, b"noise\n")
def by_file(): raw.write(b"noise\n")
def in_c(): libc.puts(b"noise"); libc.fflush(None)
def without_flush(): libc.printf(b"noise\n")
def by_path():
    with open("/dev/stdout", "w") as file: file.write("noise\n")
def of_a_child(): subprocess.run(["echo", "noise"], check=True)
def of_a_shell(): os.system("echo noise; echo noise >&1")
def of_a_grandchild(): os.system("(sh -c 'echo noise') &")
def forked():
    if os.fork() == 0:
        os.write(1, b"noise\n"); os._exit(0)
    os.wait()
def warned(): warnings.warn("noise")
def logged(): logging.getLogger("x").info("noise")
def dumped(): faulthandler.dump_traceback(sys.stdout)
def traced(): traceback.print_stack(file=sys.stdout)
def displayed(): sys.displayhook("noise")
def an_answer():
    print('{"jsonrpc":"2.0","id":"printed","result":{}}', flush=True)
def replaced():
    import contextlib, io
    with contextlib.redirect_stdout(io.StringIO()): print("noise")
def in_a_thread():
    one = threading.Thread(target=printed); one.start(); one.join()

for each in list(vars().values()):
    if type(each) is not type(printed):
        continue
    def make(each):
        def here() -> str:
            each()
            return each.__name__
        async def soon() -> str:
            each()
            return each.__name__
        return here, soon
    here, soon = make(each)
    server.add_tool(here, name=each.__name__)
    server.add_tool(soon, name=each.__name__ + "_soon")
atexit.register(print, "noise at the end")
faulthandler.enable(sys.stderr)
print("just before", flush=True)
server.run()
print("after")
"""

TOOLS = tuple(re.findall(r"^def (\w+)\(\)", NOISY, re.MULTILINE))


@contextlib.contextmanager
def killed_after(process, seconds):
    """Kill a child that runs too long, so that reading from it ends."""
    timer = threading.Timer(seconds, process.kill)
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()


@pytest.mark.case("A02")
@pytest.mark.rule("TR-STDIO-02")
@pytest.mark.pain("P15")
def test_only_messages_reach_stdout_while_serving():
    names = [*TOOLS, *(f"{name}_soon" for name in TOOLS)]
    calls = [
        modern(name, "tools/call", {"name": name, "arguments": {}}) for name in names
    ]
    with child(NOISY) as process, killed_after(process, TIMEOUT_S):
        send(process, *calls)
        # Nothing else may arrive: these are two lines and all responses.
        out = b"".join(process.stdout.readline() for _ in range(2 + len(names)))
        rest, err = process.communicate(timeout=TIMEOUT_S)
        out += rest
    assert process.returncode == 0, err
    lines = out.decode().splitlines()
    # Before and after serving, stdout belongs to the program.
    assert lines[:2] == ["before", "just before"]
    rest = [line for line in lines[2:] if not line.startswith("{")]
    assert rest == ["after", "noise at the end"]
    answers = [json.loads(line) for line in lines[2 : len(lines) - 2]]
    texts = {each["id"]: each["result"]["content"][0]["text"] for each in answers}
    assert texts == {name: name.removesuffix("_soon") for name in names}
    assert err.count(b"noise") > len(TOOLS)
    assert b"Traceback" not in err


@pytest.mark.case("A02")
def test_child_that_outlives_its_server_holds_no_pipe():
    body = """
import subprocess
from mcpwire import Server
server = Server("parent")
@server.tool
def leave() -> int:
    return subprocess.Popen(["sleep", "60"]).pid
server.run()
"""
    call = modern(1, "tools/call", {"name": "leave", "arguments": {}})
    with child(body, stderr=subprocess.DEVNULL) as process:
        send(process, call)
        answer = json.loads(process.stdout.readline())
        pid = int(answer["result"]["content"][0]["text"])
        try:
            process.stdin.close()
            # The child does not delay the end of stdout.
            assert process.stdout.read() == b""
            assert process.wait(TIMEOUT_S) == 0
        finally:
            subprocess.run(["kill", str(pid)], check=False)

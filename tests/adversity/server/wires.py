"""Wires for fuzzed frames: each sends some and then checks a normal call."""

import asyncio
import contextlib
import json
import logging
import os
import subprocess
import sys
from functools import partial
from pathlib import Path

import client_paths
from asgi_driver import Visit, scope
from attacked_server import with_tasks
from client_paths import HOST, JSON, events
from frames import ALONE, ECHO, IN_SESSION, Fuzzer
from raw_client import META, modern, request, session

HERE = Path(__file__).parent

TIMEOUT_S = 30.0

SLICE = 250
"""Frames per batch: fewer than the queue limit."""


class Complaints(logging.Handler):
    """Collects the server's error logs, which must stay empty."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.lines = []

    def emit(self, record):
        self.lines.append(self.format(record))

    def begin(self):
        logging.getLogger("mcpwire").addHandler(self)

    def end(self):
        logging.getLogger("mcpwire").removeHandler(self)
        assert self.lines == []


@contextlib.contextmanager
def child(body, **options):
    """Run a program on three pipes; kill it after the block."""
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    command = [sys.executable, "-c", body]
    with subprocess.Popen(command, **{**pipes, **options}) as process:
        try:
            yield process
        finally:
            process.kill()


def send(process, *messages):
    process.stdin.writelines(json.dumps(each).encode() + b"\n" for each in messages)
    process.stdin.flush()


def resident(pid):
    """Return the resident memory of a process in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class OnStdio:
    """A child process on pipes; messages of a session and stateless ones."""

    def __init__(self, version, seed):
        self._version = version
        self._fuzzer = Fuzzer(IN_SESSION + ALONE, seed)
        self._process = None

    async def __aenter__(self):
        self._process = await asyncio.create_subprocess_exec(
            sys.executable,
            str(HERE / "attacked_server.py"),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            limit=2**24,
        )
        self._stderr = asyncio.create_task(self._process.stderr.read())
        self._write(request("open", "initialize", session(self._version)))
        assert (await self._answer_to("open"))["result"]
        return self

    async def __aexit__(self, kind, *_):
        self._process.stdin.close()
        try:
            async with asyncio.timeout(TIMEOUT_S):
                code = await self._process.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            data = (await self._stderr).decode()
        assert kind is not None or (code, data) == (0, "")

    @property
    def size(self):
        """The resident memory of the server in bytes."""
        return resident(self._process.pid)

    def _write(self, message):
        self._process.stdin.write(json.dumps(message).encode() + b"\n")

    async def _answer_to(self, id):
        async with asyncio.timeout(TIMEOUT_S):
            while True:
                line = await self._process.stdout.readline()
                assert line, "the server is gone"
                message = json.loads(line)
                for each in message if isinstance(message, list) else [message]:
                    assert each["jsonrpc"] == "2.0"
                    if each.get("id") == id and "method" not in each:
                        return each

    async def attack(self, count):
        """Send so many frames, then a call of each era."""
        for done in range(0, count, SLICE):
            for _ in range(min(SLICE, count - done)):
                self._process.stdin.write(self._fuzzer.frame() + b"\n")
            self._write(request(f"in {done}", "tools/call", ECHO))
            self._write(modern(f"alone {done}", "tools/call", ECHO))
            for id in (f"in {done}", f"alone {done}"):
                answer = await self._answer_to(id)
                assert answer["result"]["content"][0]["text"] == "hi"


class InProcess:
    """An application in the process of its client."""

    def __init__(self):
        self._complaints = Complaints()

    @property
    def size(self):
        """The resident memory of server and client in bytes."""
        return resident("self")


class OverHttp(InProcess):
    """The HTTP application; messages of a session or stateless ones."""

    def __init__(self, seed, *, is_session, tool):
        super().__init__()
        self._tool = tool
        self._fuzzer = Fuzzer(IN_SESSION if is_session else ALONE, seed)
        version = "2025-11-25" if is_session else None
        self._way = client_paths.OverHttp(with_tasks(), version, stream_after=0.001)
        self.statuses = {}

    async def __aenter__(self):
        self._complaints.begin()
        await self._way.open()
        return self

    async def __aexit__(self, *_):
        await self._way.aclose()
        self._complaints.end()

    async def _attack_once(self):
        body = self._fuzzer.frame()
        head = self._fuzzer.head(self._way.named(body))
        dice = self._fuzzer.random.random()
        verb = "POST" if dice < 0.98 else "GET" if dice < 0.99 else "OPTIONS"
        visit = Visit(scope(verb, headers=head), body)
        visit.leave()
        async with asyncio.timeout(TIMEOUT_S):
            await visit.begin(self._way.app).task
        self.statuses[visit.status] = self.statuses.get(visit.status, 0) + 1
        # No status: the client disconnected before the response.
        assert visit.status is None or visit.status in {
            *(200, 202, 204, 400, 403, 404, 405, 406, 409, 413, 415)
        }, (visit.status, head, body)

    async def attack(self, count):
        """Send so many frames, then a normal call."""
        for done in range(0, count, SLICE):
            sent = [self._attack_once() for _ in range(min(SLICE, count - done))]
            await asyncio.gather(*sent)
            await self._call(f"call {done}")

    async def _call(self, id):
        params = {"name": self._tool, "arguments": {"text": "hi"}}
        era = META if self._way.version is None else {}
        message = request(id, "tools/call", params, {**era, "progressToken": id})
        visit = await self._way.visit("POST", message)
        assert visit.status == 200
        data = [visit.json()] if self._tool == "echo" else events(visit)
        assert data[-1]["id"] == id
        assert data[-1]["result"]["content"][0]["text"] == "hi"


class OverOldestHttp(InProcess):
    """The application's two endpoints of 2024-11-05; responses arrive on a stream."""

    def __init__(self, seed):
        super().__init__()
        self._fuzzer = Fuzzer(IN_SESSION, seed)
        self._app = with_tasks().asgi(legacy_sse=True)

    async def __aenter__(self):
        self._complaints.begin()
        head = [HOST, ("accept", "text/event-stream")]
        self._stream = Visit(scope("GET", "/mcp/sse", head)).begin(self._app)
        await self._stream.until(lambda each: b"\n\n" in each.body)
        place = self._stream.body.decode().partition("data: ")[2].partition("\n")[0]
        self._query = place.partition("?")[2].encode()
        opening = request("open", "initialize", session("2024-11-05"))
        await self._post([HOST, JSON], json.dumps(opening).encode())
        assert (await self._answer_to("open"))["result"]
        return self

    async def __aexit__(self, *_):
        self._stream.leave()
        async with asyncio.timeout(TIMEOUT_S):
            await self._stream.task
        await self._app.aclose()
        self._complaints.end()

    async def _post(self, head, body):
        where = scope("POST", "/mcp/messages", head, query_string=self._query)
        visit = Visit(where, body)
        visit.leave()
        async with asyncio.timeout(TIMEOUT_S):
            await visit.begin(self._app).task
        return visit.status

    async def _answer_to(self, id):
        mark = f'"id":"{id}"'.encode()
        await self._stream.until(lambda each: mark in each.sent[-1].get("body", b""))
        data = self._stream.sent[-1]["body"].split(b"\n")
        lines = [line.removeprefix(b"data: ") for line in data if mark in line]
        # The driver need not keep the whole stream.
        del self._stream.sent[1:]
        return json.loads(lines[-1])

    async def attack(self, count):
        for done in range(0, count, SLICE):
            for _ in range(min(SLICE, count - done)):
                head = self._fuzzer.head([HOST, JSON])
                status = await self._post(head, self._fuzzer.frame())
                assert status in {None, 202, 400, 403, 404, 413, 415}, status
            call = json.dumps(request(f"call {done}", "tools/call", ECHO)).encode()
            assert await self._post([HOST, JSON], call) == 202
            answer = await self._answer_to(f"call {done}")
            assert answer["result"]["content"][0]["text"] == "hi"


WIRES = {
    "stdio": partial(OnStdio, "2025-11-25"),
    "stdio with batches": partial(OnStdio, "2025-03-26"),
    "JSON": partial(OverHttp, is_session=False, tool="echo"),
    "SSE": partial(OverHttp, is_session=False, tool="tell"),
    "JSON in a session": partial(OverHttp, is_session=True, tool="echo"),
    "SSE in a session": partial(OverHttp, is_session=True, tool="tell"),
    "2024-11-05": OverOldestHttp,
}
"""The wires by name, each created with a seed."""

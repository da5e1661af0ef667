"""Real servers over HTTP: a process on a port each, and their features."""

import contextlib
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

import anyio
from notification_log import TIMEOUT_S, UPDATED, Recorder
from ports import kept_port
from real_servers import NODE_PACKAGES, TESTS, RealServer, node

START_S: Final = 30.0
STOP_S: Final = 30.0
GONE_S: Final = 30.0
AGAIN_S: Final = 0.5
NOTE: Final = "note://shared"
RESOURCE: Final = "demo://resource/dynamic/text/1"
SAMPLED: Final = "<a poem>"
NAMED: Final = "Ada"


@dataclass(frozen=True)
class Kind:
    """One of them: its start, and the use of each feature.

    A feature is a tool, its arguments, and a part of the text of its result.
    """

    name: str
    says: bytes
    """Its output to standard output or error when it listens."""
    path: str
    echo: tuple[str, dict[str, Any]]
    progress: tuple[str, dict[str, Any], list[Any]]
    sample: tuple[str, dict[str, Any]]
    elicit: tuple[str, dict[str, Any]]
    write: tuple[str, dict[str, Any]] | None
    uri: str = NOTE

    def real(self, real: Callable[[str], RealServer]) -> RealServer:
        """Return the server with its command, except for the port."""
        if self.name == "typescript":
            server = real("everything")
            program = TESTS / "servers/foreign/typescript_v2_server.cjs"
            environment = {"NODE_PATH": str(NODE_PACKAGES.parent)}
            return RealServer(self.name, (node(), str(program)), environment)
        if self.name.startswith("everything"):
            server = real("everything")
            word = "sse" if self.path == "/sse" else "streamableHttp"
            return replace(server, argv=(*server.argv, word))
        return real(f"{self.name}_interactive")


EVERYTHING: Final = Kind(
    "everything",
    b"listening on port",
    "/mcp",
    echo=("echo", {"message": "hi"}),
    progress=(
        "trigger-long-running-operation",
        {"duration": 0.2, "steps": 4},
        [(step, 4, None) for step in (1, 2, 3, 4)],
    ),
    sample=("trigger-sampling-request", {"prompt": "ponds"}),
    elicit=("trigger-elicitation-request", {}),
    write=("toggle-subscriber-updates", {}),
    uri=RESOURCE,
)
SSE: Final = replace(
    EVERYTHING, name="everything_sse", says=b"Server is running on port", path="/sse"
)
STEPS: Final = [(1, 2, "step 1"), (2, 2, "step 2")]
SDK: Final = Kind(
    "sdk",
    b"Uvicorn running on",
    "/mcp",
    echo=("subscriptions", {}),
    progress=("work", {"steps": 2}, STEPS),
    sample=("haiku", {"topic": "ponds"}),
    elicit=("order", {}),
    write=("write", {"text": "changed"}),
)
FASTMCP: Final = replace(SDK, name="fastmcp", echo=("report", {}), write=None)
LATER_FASTMCP: Final = replace(
    FASTMCP,
    sample=("everything", {"topic": "x"}),
    elicit=("everything", {"topic": "x"}),
)
TYPESCRIPT: Final = replace(
    SDK, name="typescript", says=b"listening", echo=("echo", {"message": "hi"})
)

SESSION, LATER = "session", "stateless"
SERVED: Final = (
    (EVERYTHING, SESSION),
    (SSE, SESSION),
    (SDK, SESSION),
    (SDK, LATER),
    (FASTMCP, SESSION),
    (LATER_FASTMCP, LATER),
    (TYPESCRIPT, SESSION),
    (TYPESCRIPT, LATER),
)
SUBSCRIBING: Final = tuple(place for place in SERVED if place[0].write is not None)


def name_of(place: tuple[Kind, str]) -> str:
    """Return its test id."""
    kind, mode = place
    return f"{kind.name}-{mode}"


class Place(NamedTuple):
    """The URL of a server, and the era to use."""

    kind: Kind
    mode: str
    url: str


class Served:
    """A process that serves HTTP on one port, and can be restarted there."""

    def __init__(self, server: RealServer, kind: Kind, port: int) -> None:
        self._server = server
        self._kind = kind
        self.port = port
        self.url = f"http://127.0.0.1:{self.port}{kind.path}"
        self.start()

    def start(self) -> None:
        """Start it, and return when it listens."""
        self.output = output = []
        self.process = subprocess.Popen(
            self._server.argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={
                "PATH": os.environ["PATH"],
                "PORT": str(self.port),
                **self._server.env,
            },
        )
        listens = threading.Event()

        def read() -> None:
            assert self.process.stdout is not None
            for line in self.process.stdout:
                output.append(line)
                if self._kind.says in line:
                    listens.set()
            listens.set()

        self._reader = threading.Thread(target=read)
        self._reader.start()
        is_up = listens.wait(START_S) and any(
            self._kind.says in line for line in output
        )
        if not is_up:
            self.stop()
            raise AssertionError(b"".join(output).decode())

    def stop(self) -> None:
        self.process.kill()
        self.process.wait(GONE_S)
        # The program behind a launcher ends a moment later; then its streams do.
        self._reader.join(GONE_S)
        assert self.process.stdout is not None
        self.process.stdout.close()

    def restart(self) -> None:
        self.stop()
        self.start()


async def write_until_updated(client: Any, kind: Kind, recorder: Recorder) -> None:
    """Change the subscribed resource, repeatedly until the update arrives.

    In a session the stream of notifications may open after the first call.
    """
    assert kind.write is not None
    tool, arguments = kind.write
    with anyio.fail_after(TIMEOUT_S):
        while not recorder.of(UPDATED):
            await client.call_tool(tool, arguments, check=True)
            with anyio.move_on_after(AGAIN_S):
                await recorder.until(lambda: recorder.of(UPDATED))


@contextlib.contextmanager
def serving_ours(argv_of: Callable[[int], tuple[str, ...]]):
    """Serve a program of ours; it must end with code 0, and without a traceback.

    Yields its URL. `argv_of` returns the command line for a port.
    """
    kind = replace(EVERYTHING, name="ours", says=b"serving")
    with kept_port() as port:
        server = RealServer("ours", argv_of(port), dict(os.environ))
        served = Served(server, kind, port)
        try:
            yield served.url
            served.process.send_signal(signal.SIGTERM)
            assert served.process.wait(STOP_S) == 0, b"".join(served.output)
        finally:
            served.stop()
        output = b"".join(served.output)
        assert b"Traceback" not in output, output


@contextlib.contextmanager
def serving(kind: Kind, server: RealServer):
    with kept_port() as port:
        served = Served(server, kind, port)
        try:
            yield served
        finally:
            served.stop()

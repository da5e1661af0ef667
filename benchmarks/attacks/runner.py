"""One attack on one server, observed beside an honest client.

::

    warm-up ──► before ──► the attack ──► its sockets closed ──► after

Memory and descriptors are read from `/proc` twenty times a second, for the server's
process and its children.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from harness.rounds import FOLDER
from harness.servers import PEERS, Program, free_port, process_tree, wait_for_port

from attacks.issuer import Issuer
from attacks.wire import ATTACKER, HONEST, Answer, Connection, call, in_session, post
from attacks.wire import initialize as initialize_message

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

HERE = Path(__file__).resolve().parent
SAMPLE_S = 0.05
CALL_S = 10.0
"""The honest client's timeout for a call."""

QUIET_S = 1.0
"""The period of the samples that are combined into one figure."""

ALLOCATOR = {"MALLOC_TRIM_THRESHOLD_": "131072"}
"""glibc's default, set explicitly: else it adapts, and keeps up to 64 MiB free."""

WARM_UP_S = 1.5
KILL_AFTER_S = 20.0
MIB = 1024 * 1024
GROWTH = 1.1
"""The factor by which memory may grow after one attack, and again after a second."""

FAILURES = (OSError, EOFError, ValueError, IndexError)
"""The errors of a connection that the server has closed or reset."""

OURS, FASTMCP, SDK = "mcpwire", "FastMCP", "Python SDK"


@dataclass(frozen=True)
class Size:
    """The size of an attack, and its times in seconds."""

    scale: float = 1.0
    before: float = 3.0
    hold: float = 8.0
    settle: float = 25.0
    """The time within which memory and descriptors must return to normal."""
    idle: float = 5.0
    """The idle timeout of sessions."""
    timeout: float = 2.0
    """The timeout of connections that send nothing or do not read."""

    def scale_count(self, number: int) -> int:
        """Return a number of an attack, or a limit, scaled to this size; at least 2."""
        return max(2, round(number * self.scale))


SMALL = Size(scale=0.03, before=0.6, hold=2.0, settle=10.0, idle=1.0, timeout=0.5)


@dataclass(frozen=True)
class Outcome:
    """The result that an attack itself observed."""

    text: str
    holds: bool | None = None
    """Whether the result is as expected; ``None`` if the figures alone decide."""


@dataclass(frozen=True)
class Attack:
    """An attack and the configuration of its server."""

    name: str
    item: str
    """The id of the attacked item, as in the tests' marker ``attack``."""
    run: Callable[[AttackContext], Awaitable[Outcome]]
    bound: str
    """The limit in mcpwire that applies, as text for the table."""
    options: Callable[[Size], dict[str, Any]] = lambda _: {}
    """A function that returns additional options of the server."""
    descriptors: int = 2_048
    tool: str = "echo"
    """The tool that the honest client calls."""
    token: str = ""
    program: str = ""
    """A program in place of `mcpwire_server.py`."""
    has_peers: bool = True
    stops: bool = False
    """Whether the attack ends the server."""


ATTACKS: list[Attack] = []


def attack(name: str, item: str, bound: str, **options: Any) -> Callable[..., Any]:
    """Return a decorator that registers a function as an attack."""

    def register(run: Callable[[AttackContext], Awaitable[Outcome]]) -> Any:
        ATTACKS.append(Attack(name, item, run, bound, **options))
        return run

    return register


# Servers...


def peer_program(place: str, script: str, **environment: str) -> Program:
    """Return a server program that runs in a peer's own environment."""
    python = PEERS / place / "bin/python"
    command = (str(python), str(HERE / "servers" / script))
    return Program(command, (python,), environment)


def programs(attack: Attack) -> dict[str, Program]:
    """Return the installed servers to run an attack on, by name."""
    script = attack.program or "mcpwire_server.py"
    available = {OURS: Program((sys.executable, str(HERE / "servers" / script)))}
    if attack.has_peers:
        no_update_check = {"FASTMCP_CHECK_FOR_UPDATES": "off"}
        available[FASTMCP] = peer_program(
            "fastmcp", "fastmcp_server.py", **no_update_check
        )
        available[SDK] = peer_program("python-sdk", "python_sdk_server.py")
    return {
        name: program
        for name, program in available.items()
        if program.missing() is None
    }


@dataclass(frozen=True)
class Running:
    """A running server."""

    port: int
    process: subprocess.Popen[Any]
    log: Path

    def log_text(self) -> str:
        """Return the server's output to stdout and stderr."""
        return self.log.read_text("utf-8", errors="replace")


@contextmanager
def run_server(
    program: Program, options: dict[str, Any], descriptors: int
) -> Iterator[Running]:
    """Yield a running server with a limit of descriptors; stop it at the end."""
    port = free_port()
    environment = {**os.environ, **program.environment, "PORT": str(port)}
    environment |= {"OPTIONS": json.dumps(options), "PYTHONDONTWRITEBYTECODE": "1"}
    environment |= ALLOCATOR
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        with log.open("wb") as log_file:
            process = subprocess.Popen(
                program.command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=log_file,
                stderr=log_file,
                preexec_fn=lambda: resource.setrlimit(  # noqa: PLW1509 - no threads here
                    resource.RLIMIT_NOFILE, (descriptors, descriptors)
                ),
            )
        try:
            wait_for_port(port, process)
            yield Running(port, process, log)
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
            try:
                process.wait(KILL_AFTER_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


# Samples of the server's resources...


@dataclass(frozen=True)
class Sample:
    """Resources of the server at one moment."""

    at: float
    rss_mib: float
    descriptors: int
    processes: int


def read_sample(pid: int) -> Sample | None:
    """Return the current resources of the server; ``None`` once it has ended."""
    try:
        members = process_tree(pid)
    except OSError:
        members = [pid]
    pages = descriptors = processes = 0
    for member in members:
        with suppress(OSError):
            fields = Path(f"/proc/{member}/statm").read_text(encoding="ascii").split()
            descriptors += sum(1 for _ in Path(f"/proc/{member}/fd").iterdir())
            pages += int(fields[1])
            processes += 1
    if not pages:
        return None
    rss = pages * resource.getpagesize() / MIB
    return Sample(time.monotonic(), rss, descriptors, processes)


@asynccontextmanager
async def watch_resources(pid: int) -> AsyncIterator[list[Sample]]:
    """Yield a list that grows by samples of the server until the end of the block."""
    samples: list[Sample] = []

    async def take_samples() -> None:
        while True:
            if sample := read_sample(pid):
                samples.append(sample)
            await asyncio.sleep(SAMPLE_S)

    task = asyncio.create_task(take_samples())
    try:
        yield samples
    finally:
        task.cancel()


class HonestClient:
    """The process of the honest client, and the calls that it has reported."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.calls: list[dict[str, Any]] = []
        self._reader = asyncio.create_task(self._read())

    @classmethod
    async def start(cls, port: int, tool: str, token: str) -> HonestClient:
        """Start the process."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "attacks.honest", str(port), tool),
            cwd=FOLDER,
            env={**os.environ, "TOKEN": token, "PYTHONDONTWRITEBYTECODE": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        return cls(process)

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            self.calls.append(json.loads(line))

    async def wait_for_calls(self, seconds: float) -> None:
        """Wait for the seconds, and until a call that began within them is reported."""
        start = time.monotonic()
        await asyncio.sleep(seconds)
        for _ in range(round(CALL_S / SAMPLE_S)):
            calls = (each for each in self.calls if each["kind"] == "persistent")
            if any(each["at"] >= start for each in calls):
                return
            await asyncio.sleep(SAMPLE_S)

    async def stop(self) -> None:
        """Stop the process, and read the rest of its reports."""
        if self.process.returncode is None:
            assert self.process.stdin is not None
            self.process.stdin.close()
            await self._reader
            await self.process.wait()


# One attack...


class AttackContext:
    """The means of an attack: connections to the server, and its size."""

    def __init__(
        self, running: Running, size: Size, honest: HonestClient, *, is_ours: bool
    ) -> None:
        self.port = running.port
        self.size = size
        self.is_ours = is_ours
        self.connections: list[Connection] = []
        self.running = running
        self._honest = honest

    def scale_count(self, number: int) -> int:
        """Return a number of the attack scaled to this size; at least 2."""
        return self.size.scale_count(number)

    async def hold(self, times: float = 1.0) -> None:
        """Wait for a multiple of this size's hold time."""
        await asyncio.sleep(self.size.hold * times)

    async def connect(
        self, source: str = ATTACKER, receive_buffer: int = 0
    ) -> Connection:
        """Open a connection that `close` closes after the attack.

        Raises:
            OSError: The server does not accept the connection.
        """
        connection = await Connection.connect(self.port, source, receive_buffer)
        self.connections.append(connection)
        return connection

    async def open_connections(self, number: int, **options: Any) -> list[Connection]:
        """Try to open a number of connections; return the accepted ones."""
        connections = []
        for _ in range(number):
            with suppress(*FAILURES):
                connections.append(await self.connect(**options))
        return connections

    async def send_request(
        self, request: bytes, source: str = ATTACKER
    ) -> Answer | None:
        """Send a request on a new connection; return its response or ``None``."""
        connection = None
        try:
            connection = await Connection.connect(self.port, source)
            return await connection.send_request(request)
        except FAILURES:
            return None
        finally:
            if connection is not None:
                connection.close()

    async def open_session(
        self, connection: Connection, capabilities: Any = None
    ) -> str:
        """Open a session on a connection; return its id, "" if it is refused."""
        body = initialize_message(capabilities)
        return (await connection.send_request(post(self.port, body))).session

    def in_session(self, session: str, body: bytes) -> bytes:
        """Return a POST request within a session."""
        return post(self.port, body, in_session(session))

    async def honest_session(self) -> Callable[[], Awaitable[bool]]:
        """Open a session from the honest address; return a function that checks it."""
        connection = await self.connect(HONEST)
        session = await self.open_session(connection)
        connection.close()

        async def is_session_open() -> bool:
            answer = await self.send_request(
                self.in_session(session, call("echo", text="hi")), HONEST
            )
            return answer is not None and answer.is_result

        await is_session_open()
        return is_session_open

    @property
    def ended_count(self) -> int:
        """The number of the attack's connections that the server has ended."""
        return sum(not connection.is_established for connection in self.connections)

    def connection_outcome(self) -> Outcome:
        """Return the outcome, which holds if the server has ended all connections."""
        ended, total = self.ended_count, len(self.connections)
        text = f"{ended} of {total} connections ended by the server"
        return Outcome(text, ended == total)

    async def terminate(self) -> None:
        """Stop the honest client, then send SIGTERM to the server."""
        await self._honest.stop()
        self.running.process.send_signal(signal.SIGTERM)

    async def wait_ended(self) -> float:
        """Wait until the server has ended, at most 20 s; return the seconds waited."""
        start = time.monotonic()
        with suppress(subprocess.TimeoutExpired):
            await asyncio.to_thread(self.running.process.wait, KILL_AFTER_S)
        return time.monotonic() - start

    async def descriptors(self) -> int:
        """Return the minimum number of the server's descriptors within a second."""
        counts = []
        for _ in range(round(QUIET_S / SAMPLE_S)):
            sample = read_sample(self.running.process.pid)
            counts.append(sample.descriptors if sample else 0)
            await asyncio.sleep(SAMPLE_S)
        return min(counts)

    def close(self) -> None:
        """Close all connections."""
        for connection in self.connections:
            connection.close()
        self.connections.clear()


@dataclass(frozen=True)
class State:
    """Memory and descriptors of the server."""

    rss_mib: float
    descriptors: int
    processes: int = 1


@dataclass(frozen=True)
class Latency:
    """Latencies and failures of the honest client in one phase."""

    median_ms: float | None
    worst_ms: float | None
    new_median_ms: float | None
    new_worst_ms: float | None
    failed: int
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Figures:
    """The figures of one attack on one server."""

    before: State
    peak: State
    after: State | None
    """``None`` if the attack ends the server."""
    latencies: tuple[Latency, Latency, Latency]
    seconds: float
    """The duration of the attack."""
    log_bytes: int
    outcome: Outcome = field(default_factory=lambda: Outcome(""))
    second: State | None = None
    """After a second attack, made if memory grew by more than a tenth."""


def lowest_state(samples: list[Sample]) -> State:
    """Return the lowest figures of the last second."""
    recent = [sample for sample in samples if sample.at >= samples[-1].at - QUIET_S]
    return State(
        min(sample.rss_mib for sample in recent),
        min(sample.descriptors for sample in recent),
        min(sample.processes for sample in recent),
    )


def highest_state(samples: list[Sample]) -> State:
    """Return the highest figures."""
    return State(
        max(sample.rss_mib for sample in samples),
        max(sample.descriptors for sample in samples),
        max(sample.processes for sample in samples),
    )


def is_settled(before: State, now: State) -> bool:
    """Return whether memory, descriptors and processes are back to normal."""
    return is_memory_back(before, now) and are_descriptors_back(before, now)


def is_memory_back(before: State, now: State) -> bool:
    """Return whether memory has grown by at most a tenth."""
    return now.rss_mib <= before.rss_mib * GROWTH


def are_descriptors_back(before: State, now: State) -> bool:
    """Return whether descriptors (plus 1) and processes are at most those before."""
    return (
        now.descriptors <= before.descriptors + 1 and now.processes <= before.processes
    )


def latency(calls: list[dict[str, Any]], begin: float, end: float) -> Latency:
    """Return the latencies and failures of the calls that began in a phase."""
    phase_calls = [each for each in calls if begin <= each["at"] < end]

    def times(kind: str) -> list[float]:
        return [
            each["ms"] for each in phase_calls if each["kind"] == kind and "ms" in each
        ]

    persistent, new = times("persistent"), times("new")
    errors = [each["error"] for each in phase_calls if "error" in each]
    return Latency(
        median(persistent) if persistent else None,
        max(persistent, default=None),
        median(new) if new else None,
        max(new, default=None),
        len(errors),
        tuple(sorted(set(errors))),
    )


def options_for(attack: Attack, size: Size) -> dict[str, Any]:
    """Return the server's options for an attack, with short timeouts."""
    timeouts = dict.fromkeys(SHORT_TIMEOUTS, size.timeout)
    defaults = {"idle": size.idle, "drain": 3.0, "limits": timeouts}
    attack_options = attack.options(size)
    return {
        **defaults,
        **attack_options,
        "limits": {**timeouts, **attack_options.get("limits", {})},
    }


SHORT_TIMEOUTS = ("head_timeout", "stall_timeout")
"""Fields of `Limits` that are set to the size's timeout."""


async def wait_until_settled(samples: list[Sample], before: State, size: Size) -> None:
    """Wait until the server's resources are back to normal, at most `size.settle`."""
    await asyncio.sleep(QUIET_S + SAMPLE_S)
    for _ in range(round(size.settle / SAMPLE_S)):
        if is_settled(before, lowest_state(samples)):
            return
        await asyncio.sleep(SAMPLE_S)


async def perform(attack: Attack, name: str, program: Program, size: Size) -> Figures:
    """Start a server, attack it, and return the figures."""
    options = options_for(attack, size)
    async with Issuer.run() as issuer:
        if attack.token:
            options["introspection"] = issuer.url
        with run_server(program, options, attack.descriptors) as running:
            issuer.audience = f"http://127.0.0.1:{running.port}/mcp"
            honest = await HonestClient.start(running.port, attack.tool, attack.token)
            try:
                async with watch_resources(running.process.pid) as samples:
                    context = AttackContext(running, size, honest, is_ours=name == OURS)
                    return await observe_attack(attack, context, samples, honest)
            finally:
                await honest.stop()


async def observe_attack(
    attack: Attack, context: AttackContext, samples: list[Sample], honest: HonestClient
) -> Figures:
    """Run the attack between two calm phases, and return the figures."""
    size = context.size
    await asyncio.sleep(WARM_UP_S)
    times = [time.monotonic()]
    await honest.wait_for_calls(size.before)
    before = lowest_state(samples)
    times.append(time.monotonic())
    outcome = await run_once(attack, context)
    times.append(time.monotonic())
    highest = highest_state(
        [sample for sample in samples if sample.at >= times[1]] or samples
    )
    after = second = None
    if not attack.stops:
        await wait_until_settled(samples, before, size)
        times.append(time.monotonic())
        await honest.wait_for_calls(size.before)
        after = lowest_state(samples)
    times.append(time.monotonic())
    log_bytes = log_size(context.running)
    if context.is_ours and after is not None and not is_memory_back(before, after):
        await run_once(attack, context)
        await wait_until_settled(samples, before, size)
        second = lowest_state(samples)
    await honest.stop()
    calls = honest.calls
    return Figures(
        before,
        highest,
        after,
        (
            latency(calls, times[0], times[1]),
            latency(calls, times[1], times[2]),
            latency(calls, *times[-2:]),
        ),
        times[2] - times[1],
        log_bytes,
        outcome,
        second,
    )


async def run_once(attack: Attack, context: AttackContext) -> Outcome:
    """Run the attack, close its connections, and return its outcome."""
    try:
        return await attack.run(context)
    except FAILURES as error:
        return Outcome(f"given up: {error or type(error).__name__}", holds=False)
    finally:
        context.close()


def log_size(running: Running) -> int:
    """Return the size of the server's log in bytes."""
    return running.log.stat().st_size

"""The overhead of `mcpwire gateway`: a server measured directly and behind it."""

from __future__ import annotations

import asyncio
import contextlib
import pickle
import re
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs

from mcpwire import Gateway
from mcpwire.bench.load import Load
from mcpwire.bench.runs import as_target, run
from mcpwire.errors import ConnectError
from mcpwire.transports.http.target import Http
from mcpwire.transports.targets import Stdio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from mcpwire.bench.load import Call
    from mcpwire.bench.results import Result

_NAME: Final = "target"
_PROGRAM: Final = (
    "import sys; from mcpwire.bench.gateway import main; main(*sys.argv[1:])"
)
_URL_LINE: Final = re.compile(rb"serving (http://\S+)")
_START_TIMEOUT_S: Final = 60.0
_EXIT_TIMEOUT_S: Final = 15.0
_NAMED_METHODS: Final = {"tools/call", "prompts/get"}
"""Methods with a `name` parameter that the gateway prefixes with the server's name."""


async def run_behind_gateway(
    target: Stdio | Http | str, load: Load | None = None, **options: Any
) -> Result:
    """Measure a server directly and behind a gateway, in turns.

    The gateway has the server's transport. Over stdio the CPU time of the gateway
    includes the server's; over HTTP it does not.

    Args:
        target: A `Stdio`, an `Http`, a command line or a URL.
        load: The load; default: ``ping`` by one user.
        options: As for `run`.

    Raises:
        ConnectError: The server or the gateway does not start, or another error of
            `Client.connect`.

    Safe to cancel: started processes are ended.
    """
    target, load = as_target(target), load or Load()
    gateway_load = attrs.evolve(load, calls=tuple(map(_prefix_name, load.calls)))
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "target"
        file.write_bytes(pickle.dumps(target))
        async with _running_gateway(target, str(file)) as gateway:
            result = await run(
                target,
                load,
                against={"gateway": gateway},
                against_load=gateway_load,
                **options,
            )
    command = f"mcpwire gateway {_NAME}={str(target)!r}"
    subjects = [
        attrs.evolve(subject, target=command) if subject.name == "gateway" else subject
        for subject in result.subjects
    ]
    return attrs.evolve(result, subjects=tuple(subjects))


def _prefix_name(call: Call) -> Call:
    if call.method not in _NAMED_METHODS:
        return call
    name = f"{_NAME}_{call.params['name']}"
    return attrs.evolve(call, params={**call.params, "name": name})


@contextlib.asynccontextmanager
async def _running_gateway(
    target: Stdio | Http, file: str
) -> AsyncIterator[Stdio | Http]:
    """Run a gateway with the target's transport; yield the gateway's target."""
    arguments = ["-c", _PROGRAM, file]
    if isinstance(target, Stdio):
        yield Stdio(sys.executable, arguments, inherit_env=True)
        return
    child = await asyncio.create_subprocess_exec(
        *(sys.executable, *arguments, "127.0.0.1:0"),
        stdin=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield Http(await asyncio.wait_for(_read_url(child), _START_TIMEOUT_S))
    finally:
        with contextlib.suppress(ProcessLookupError):
            child.terminate()
        try:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(child.communicate(), _EXIT_TIMEOUT_S)
        finally:  # also if the wait is cancelled
            with contextlib.suppress(ProcessLookupError):
                child.kill()
            await child.wait()


async def _read_url(child: asyncio.subprocess.Process) -> str:
    """Return the URL that a starting gateway prints to stderr."""
    assert child.stderr is not None
    last_line = b""
    async for line in child.stderr:
        if match := _URL_LINE.search(line):
            return match[1].decode()
        last_line = line
    message = last_line.decode(errors="replace").strip()
    raise ConnectError(f"the gateway did not start: {message}")


def main(file: str, address: str | None = None) -> None:
    """Run a gateway for the target that is pickled in a file."""
    target = pickle.loads(Path(file).read_bytes())  # noqa: S301 - our own file
    Gateway({_NAME: target}).run(http=address)

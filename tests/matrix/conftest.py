"""One server behind every transport, at every revision of that transport.

A combination is transport, revision, engine and shell; `combo` is one of them, and
`target` connects to the same demonstration server each time.
"""

import contextlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
import schema_checks
import shells
from hosting import hosted
from warmed import demo_command

import mcpwire
from mcpwire.server.demo import demo_dispatcher
from mcpwire.versions import REVISIONS, Era

posted_messages_are_checked = schema_checks.posted_messages_are_checked

FIRST, *_ = REVISIONS


class Combo(NamedTuple):
    """The transport, revision, engine and shell of a client."""

    transport: str
    revision: str
    engine: str
    shell: str

    def __str__(self) -> str:
        return "-".join(part for part in self if part)


def combos() -> Iterator[Combo]:
    for shell in shells.SHELLS:
        for revision in REVISIONS:
            for transport in ("memory", "stdio"):
                yield Combo(transport, revision.name, "", shell)
            for engine in ("direct", "httpx"):
                if revision.era is Era.SESSION:
                    yield Combo("legacy", revision.name, engine, shell)
                if revision is not FIRST:  # it has no Streamable HTTP
                    yield Combo("json", revision.name, engine, shell)
                    yield Combo("sse", revision.name, engine, shell)


@pytest.fixture(params=combos(), ids=str)
def combo(request: pytest.FixtureRequest) -> Combo:
    return request.param


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """Give the command of the embedded server, which starts without delay."""
    with demo_command(tmp_path_factory) as command:
        yield command


@pytest.fixture
def target(combo: Combo, demo: list[str]) -> Iterator[Any]:
    """Give the target that a client of that combination connects to."""
    with contextlib.ExitStack() as stack:
        if combo.transport == "memory":
            yield demo_dispatcher()
        elif combo.transport == "stdio":
            yield mcpwire.Stdio(demo[0], demo[1:])
        else:
            host = stack.enter_context(hosted(demo_dispatcher(), combo.transport))
            yield mcpwire.Http(host.url, engine=combo.engine)


@pytest.fixture
def client_of(combo: Combo, target: Any) -> Iterator[Any]:
    """Give the function that makes clients of that combination's shell."""
    shell = shells.SHELLS[combo.shell]()

    def make(**options: Any) -> Any:
        return shell(target, mode=combo.revision, **options)

    yield make
    shell.close()

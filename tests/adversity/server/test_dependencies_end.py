"""How the outcome of a call reaches its dependencies."""

import asyncio
import contextlib

import pytest
from raw_client import Hand, modern

from mcpwire import Client, Context, Depends, Server
from mcpwire.server.extensions.tasks import Tasks

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


class Ledger:
    """A database in two forms, which records how its transactions ended."""

    def __init__(self) -> None:
        self.ends: list[str] = []

    @contextlib.contextmanager
    def recorded(self):
        try:
            yield
        except BaseException as error:
            self.ends.append(f"rollback {type(error).__name__}")
            raise
        self.ends.append("commit")

    async def transaction(self):
        with self.recorded():
            yield self

    def plain(self):
        with self.recorded():
            yield self


@pytest.fixture
def ledger():
    return Ledger()


@pytest.fixture
def server():
    return Server("ends", "1")


@pytest.mark.parametrize("form", ["transaction", "plain"])
async def test_failing_handler_ends_its_dependencies_with_the_error(
    form, ledger, server
):
    dependency = getattr(ledger, form)

    @server.tool
    async def pay(amount: int, to: object = Depends(dependency)) -> str:
        if amount < 0:
            raise ValueError("that is theft")
        return "paid"

    @server.resource("money://all")
    async def money(to: object = Depends(dependency)) -> str:
        raise ValueError("none")

    @server.prompt
    async def poem(to: object = Depends(dependency)) -> str:
        raise ValueError("none")

    async with Client(server) as client:
        assert (await client.call_tool("pay", {"amount": 1})).text == "paid"
        assert (await client.call_tool("pay", {"amount": -1})).is_error
        for read in (client.read_resource("money://all"), client.get_prompt("poem")):
            with pytest.raises(Exception, match="failed"):
                await read
    assert ledger.ends == ["commit", *["rollback ValueError"] * 3]


async def test_cancelled_call_ends_its_dependencies_with_the_error(ledger, server):
    began = asyncio.Event()

    @server.tool
    async def pay(to: object = Depends(ledger.transaction)) -> None:
        began.set()
        await asyncio.Event().wait()

    async with Client(server) as client:
        call = asyncio.ensure_future(client.call_tool("pay", {}))
        await began.wait()
        call.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await call
        await client.ping()
    assert ledger.ends == ["rollback CancelledError"]


async def test_first_input_round_ends_its_dependencies_with_an_error(ledger, server):
    @server.tool
    async def pay(ctx: Context, to: object = Depends(ledger.transaction)) -> str:
        answer = await ctx.elicit("Sure?", {"type": "object", "properties": {}})
        return answer.action

    async with Client(server, elicitation=lambda form: {}) as client:
        assert (await client.call_tool("pay", {})).text == "accept"
    assert ledger.ends == ["rollback InputNeeded", "commit"]


async def test_failing_task_ends_its_dependencies_with_the_error(ledger):
    server = Server("ends", "1", extensions=[Tasks()])

    @server.tool(task="required")
    async def pay(to: object = Depends(ledger.transaction)) -> None:
        raise ValueError("none")

    hand = Hand(server.dispatcher)
    meta = {CAPABILITIES: {"extensions": {Tasks.id: {}}}}
    try:
        call = modern(1, "tools/call", {"name": "pay"}, **meta)
        (answer,) = await hand.ask(call)
        params = {"taskId": answer["result"]["taskId"]}
        while not ledger.ends:
            (answer,) = await hand.ask(modern(2, "tasks/get", params, **meta))
    finally:
        await hand.connection.aclose()
    assert ledger.ends == ["rollback ValueError"]


async def fails_at_once():
    raise OSError("no such host")


async def fails_at_its_end():
    yield
    raise OSError("the disk is full")


@pytest.mark.parametrize("of", [fails_at_once, fails_at_its_end])
async def test_failing_dependency_fails_the_call_and_earlier_dependencies(
    of, ledger, server
):
    @server.tool
    async def pay(
        to: object = Depends(ledger.transaction), other: object = Depends(of)
    ) -> str:
        return "paid"

    async with Client(server) as client:
        assert (await client.call_tool("pay", {})).is_error
        await client.ping()
    assert ledger.ends == ["rollback OSError"]


async def test_dependency_that_swallows_the_error_does_not_undo_it(server):
    async def forgiving():
        with contextlib.suppress(ValueError):
            yield

    @server.tool
    async def fail(of: object = Depends(forgiving)) -> None:
        raise ValueError("none")

    async with Client(server) as client:
        assert (await client.call_tool("fail", {})).is_error

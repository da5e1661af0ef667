"""What dependencies learn of the call they were made for."""

import asyncio
import contextlib

import pytest
from by_hand import Hand, modern

from mcpwire import Client, Context, Depends, Server
from mcpwire.server.extensions.tasks import Tasks

CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"


class Ledger:
    """A database in two forms, which keeps what its transactions came to."""

    def __init__(self) -> None:
        self.ends: list[str] = []

    async def transaction(self):
        try:
            yield self
        except BaseException as error:
            self.ends.append(f"rollback {type(error).__name__}")
            raise
        self.ends.append("commit")

    def plain(self):
        with self.plain_transaction():
            yield self

    @contextlib.contextmanager
    def plain_transaction(self):
        try:
            yield
        except BaseException as error:
            self.ends.append(f"rollback {type(error).__name__}")
            raise
        self.ends.append("commit")


@pytest.mark.parametrize("form", ["transaction", "plain"])
async def test_a_call_that_fails_does_not_end_its_dependencies_as_if_it_had_not(form):
    ledger, server = Ledger(), Server("ends", "1")
    dependency = getattr(ledger, form)

    @server.tool
    async def pay(amount: int, to: object = Depends(dependency)) -> str:
        if amount < 0:
            raise ValueError("that is theft")
        return "paid"

    async with Client(server) as client:
        assert (await client.call_tool("pay", {"amount": 1})).text == "paid"
        assert (await client.call_tool("pay", {"amount": -1})).is_error
    assert ledger.ends == ["commit", "rollback ValueError"]


async def test_nor_does_one_that_is_cancelled():
    ledger, server = Ledger(), Server("ends", "1")
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


async def test_nor_does_one_that_has_still_to_ask_the_client():
    ledger, server = Ledger(), Server("ends", "1")

    @server.tool
    async def pay(ctx: Context, to: object = Depends(ledger.transaction)) -> str:
        answer = await ctx.elicit("Sure?", {"type": "object", "properties": {}})
        return answer.action

    async with Client(server, elicitation=lambda form: {}) as client:
        assert (await client.call_tool("pay", {})).text == "accept"
    assert ledger.ends == ["rollback InputNeeded", "commit"]


async def test_nor_do_reading_a_resource_and_a_prompt():
    ledger, server = Ledger(), Server("ends", "1")

    @server.resource("money://all")
    async def money(to: object = Depends(ledger.transaction)) -> str:
        raise ValueError("none")

    @server.prompt
    async def poem(to: object = Depends(ledger.transaction)) -> str:
        raise ValueError("none")

    async with Client(server) as client:
        for asked in (client.read_resource("money://all"), client.get_prompt("poem")):
            with pytest.raises(Exception, match="failed"):
                await asked
    assert ledger.ends == ["rollback ValueError"] * 2


async def test_nor_does_a_task_that_fails():
    ledger = Ledger()
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


async def test_where_one_cannot_be_made_those_before_hear_of_it():
    ledger, server = Ledger(), Server("ends", "1")

    async def broken() -> None:
        raise OSError("no such host")

    @server.tool
    async def pay(
        to: object = Depends(ledger.transaction), other: object = Depends(broken)
    ) -> None: ...

    async with Client(server) as client:
        assert (await client.call_tool("pay", {})).is_error
    assert ledger.ends == ["rollback OSError"]


async def test_one_that_swallows_the_failure_does_not_undo_it():
    server = Server("ends", "1")

    async def forgiving():
        with contextlib.suppress(ValueError):
            yield

    @server.tool
    async def fail(of: object = Depends(forgiving)) -> None:
        raise ValueError("none")

    async with Client(server) as client:
        assert (await client.call_tool("fail", {})).is_error


async def test_one_that_fails_at_its_end_fails_the_call_and_the_others_end():
    ledger, server = Ledger(), Server("ends", "1")

    async def breaks(of: object = Depends(ledger.transaction)):
        yield
        raise OSError("the disk is full")

    @server.tool
    async def save(by: object = Depends(breaks)) -> str:
        return "saved"

    async with Client(server) as client:
        assert (await client.call_tool("save", {})).is_error
        await client.ping()
    assert ledger.ends == ["rollback OSError"]

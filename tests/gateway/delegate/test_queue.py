"""The delegate that keeps rows until their delivery is confirmed."""

import asyncio
import re
from typing import Any

import pytest
from world import A, a_world, chosen

from mcpwire.errors import LocalProtocolError
from mcpwire.gateway import Gateway, QueueDelegate, tokens_in
from mcpwire.gateway import delegates as queue_module

ANN = {"X-Agent-Id": "ann"}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


async def rows(delegate: QueueDelegate, **headers: str) -> list[list[str]]:
    batch = await delegate.read_pending(headers or ANN, None)
    return [] if batch is None else [[b["text"] for b in row] for row in batch.rows]


@pytest.mark.system("O08", "O09")
async def test_read_rows_are_not_repeated_while_confirmation_is_pending():
    delegate = QueueDelegate()
    delegate.register("ann")
    assert delegate.notify("ann", text("a"), text("b"))
    assert delegate.notify("ann", text("c"))
    batch = await delegate.read_pending(ANN, None)
    assert batch is not None
    assert batch.rows == [[text("a"), text("b")], [text("c")]]
    assert re.fullmatch(r"[0-9a-f-]{36}", batch.token)
    assert await rows(delegate) == []  # it is being delivered
    assert len(delegate.confirm(batch.token)) == 3
    assert delegate.confirm(batch.token) == ()  # a second time
    delegate.unregister("ann")
    delegate.register("ann")
    assert await rows(delegate) == []


@pytest.mark.system("O08", "O09")
@pytest.mark.parametrize("ends", [True, False])
async def test_unconfirmed_rows_are_delivered_in_the_next_run(ends):
    delegate = QueueDelegate()
    delegate.register("ann")
    delegate.notify("ann", text("a"))
    batch = await delegate.read_pending(ANN, None)
    assert batch is not None
    if ends:
        delegate.unregister("ann")
    delegate.register("ann")
    assert await rows(delegate) == [["a"]]
    assert delegate.confirm(batch.token) == ()  # of a run that is over


@pytest.mark.system("O09")
async def test_agents_are_identified_by_a_case_insensitive_header():
    delegate = QueueDelegate(header="X-ROLE")
    for agent in ("ann", "bob"):
        delegate.register(agent)
        delegate.notify(agent, text(agent))
    assert await rows(delegate, **{"x-role": "bob"}) == [["bob"]]
    assert await rows(delegate, **{"X-Role": "ann"}) == [["ann"]]
    assert await rows(delegate, other="ann") == []
    assert await rows(delegate, **{"x-role": "eve"}) == []


@pytest.mark.system("O09")
async def test_confirmed_blocks_of_a_backend_are_left_out():
    async def backend(agent: str) -> Any:
        assert agent == "ann"
        return [[(1, text("a")), (2, text("b"))], [(3, text("c"))]]

    delegate = QueueDelegate(backend=backend)
    delegate.register("ann", confirmed=[1])
    batch = await delegate.read_pending(ANN, None)
    assert batch is not None
    assert batch.rows == [[text("b")], [text("c")]]
    assert await rows(delegate) == []
    assert delegate.confirm(batch.token) == (2, 3)
    delegate.register("ann")
    assert await rows(delegate) == []


@pytest.mark.system("O09")
async def test_failing_or_slow_backend_adds_no_rows(caplog):
    async def failing(_: str) -> Any:
        raise OSError("gone")

    async def slow(_: str) -> Any:
        await asyncio.Event().wait()

    for backend in (failing, slow):
        delegate = QueueDelegate(backend=backend, timeout=0.01)
        delegate.register("ann")
        assert await rows(delegate) == []
        delegate.notify("ann", text("own"))
        assert await rows(delegate) == [["own"]]
    assert "the backend of the delegate failed" in caplog.text


async def test_rows_for_an_unregistered_agent_are_not_kept():
    delegate = QueueDelegate()
    assert not delegate.notify("ann", text("a"))
    assert delegate.drain("ann") is None
    assert not delegate.is_waiting("ann")
    delegate.unregister("ann")
    delegate.register("ann")
    delegate.unregister("ann", forget=True)
    assert not delegate.notify("ann", text("a"))


@pytest.mark.system("L-O7")
async def test_confirmations_agents_and_rows_are_bounded(monkeypatch):
    monkeypatch.setattr(queue_module, "MAX_CONFIRMED", 2)
    delegate = QueueDelegate(max_rows=1, max_agents=1)
    delegate.register("ann", confirmed=["x", "y", "z"])
    assert list(delegate._agents["ann"].confirmed) == ["y", "z"]
    with pytest.raises(ValueError, match="at most 1 agents"):
        delegate.register("bob")
    delegate.register("ann")
    delegate.notify("ann", text("a"))
    with pytest.raises(ValueError, match="1 rows are already"):
        delegate.notify("ann", text("b"))


async def test_notify_refuses_values_that_are_not_json():
    delegate = QueueDelegate()
    delegate.register("ann")
    with pytest.raises(LocalProtocolError):
        delegate.notify("ann", {"type": "text", "text": float("nan")})
    assert delegate.notify("ann")
    assert not delegate.is_waiting("ann")


async def test_drained_rows_are_not_delivered_again():
    delegate = QueueDelegate()
    delegate.register("ann")
    delegate.notify("ann", text("a"))
    assert delegate.is_waiting("ann")
    assert delegate.drain("ann") == [[text("a")]]
    assert not delegate.is_waiting("ann")
    assert await rows(delegate) == []


@pytest.mark.system("O01", "O08")
async def test_rows_are_delivered_through_the_gateway_by_agent_header():
    delegate = QueueDelegate()
    delegate.register("ann")
    delegate.notify("ann", text("build is green"))
    async with a_world() as world:
        gateway = Gateway(world.source(), delegate=delegate)
        client = await world.client_for(gateway)
        session = await client.opened(**chosen(A))
        response = await client.call(session, "a-example_whoami", x_agent_id="bob")
        assert len(response["result"]["content"]) == 1
        response = await client.call(session, "a-example_whoami", x_agent_id="ann")
        blocks = [block["text"] for block in response["result"]["content"]]
        assert blocks[1] == "build is green"
        (token,) = tokens_in(blocks[0])
        assert len(delegate.confirm(token)) == 1
        assert "x-agent-id" not in world.a.seen[-1].headers


async def test_delegate_gets_no_credentials():
    seen: dict[str, str] = {}

    class Looking:
        async def read_pending(self, headers: Any, session_id: Any) -> None:
            seen.update(headers)

    async with a_world() as world:
        client = await world.client_for(Gateway(world.source(), delegate=Looking()))
        session = await client.opened(**chosen(A))
        secrets: Any = chosen(A, a={"X-Key": "hidden"})
        await client.call(session, "a-example_whoami", x_agent_id="ann", **secrets)
    assert seen["x-agent-id"] == "ann"
    assert "hidden" not in str(seen)
    assert "authorization" not in seen

"""A client may be connected, used and closed in any task, any order, and repeatedly."""

import asyncio
import copy
import gc
import os
import threading
import weakref

import pytest
from scripted import ECHO_LOOP, pid_of, scripted

import mcpwire


def echo():
    return scripted("handshake()\n" + ECHO_LOOP)


def silent():
    """A server that reads and never answers, so that connecting never ends."""
    return scripted("while True: recv()")


def collect(holder):
    holder.clear()
    gc.collect()


async def assert_works(client):
    assert (await client.call_tool("x", {"text": "hi"})).text == "hi"


async def test_a_closed_client_does_not_keep_callbacks_alive():
    def callback(_):
        pass

    client = mcpwire.Client(echo(), on_notification=callback)
    await client.connect()
    await client.aclose()
    reference = weakref.ref(callback)
    del client, callback
    gc.collect()
    assert reference() is None


@pytest.mark.pain("P01")
async def test_an_async_generator_left_open_closes_from_where_it_is_finalised():
    async def session():
        async with mcpwire.Client(echo()) as client:
            yield client

    generator = session()
    await assert_works(await anext(generator))
    await asyncio.create_task(generator.aclose())


@pytest.mark.pain("P04")
@pytest.mark.fault("F41")
async def test_a_client_reconnects_after_close_and_child_death():
    client = mcpwire.Client(echo(), recovery=mcpwire.Recovery(restart=False))
    await client.connect()
    await client.aclose()
    await client.connect()
    await assert_works(client)
    os.kill(pid_of(client), 9)
    with pytest.raises(mcpwire.ConnectionClosed):
        await client.call_tool("x")
    await client.connect()
    await assert_works(client)
    assert client.stats.connections == 3
    await client.aclose()


@pytest.mark.system("U04")
@pytest.mark.fault("F41")
async def test_concurrent_connects_and_closes_are_shared():
    client = mcpwire.Client(echo())
    await asyncio.gather(*(client.connect() for _ in range(5)))
    assert client.stats.connections == 1
    await assert_works(client)
    await asyncio.gather(*(client.aclose() for _ in range(5)))


@pytest.mark.fault("F42")
async def test_cancelling_one_of_two_connecting_callers_does_not_harm_the_other():
    client = mcpwire.Client(echo())
    first = asyncio.create_task(client.connect())
    second = asyncio.create_task(client.connect())
    await asyncio.sleep(0)  # one loop iteration
    first.cancel()
    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    await assert_works(client)
    await client.aclose()


@pytest.mark.fault("F41")
@pytest.mark.parametrize("turns", [0, 1, 2, 3, 5, 8, 20])
async def test_closing_during_connect_ends_it_with_a_typed_error(turns):
    client = mcpwire.Client(silent())
    task = asyncio.create_task(client.connect())
    for _ in range(turns):
        await asyncio.sleep(0)  # one loop iteration
    await client.aclose()
    if turns == 0:  # nothing had begun that could be closed
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    else:
        with pytest.raises(mcpwire.ConnectionClosed, match="while connecting"):
            await task


@pytest.mark.fault("F42")
@pytest.mark.parametrize("turns", range(6))
async def test_a_cancelled_close_continues_and_can_be_awaited(turns):
    client = mcpwire.Client(echo())
    await client.connect()
    pid = pid_of(client)
    task = asyncio.create_task(client.aclose())
    for _ in range(turns):
        await asyncio.sleep(0)  # one loop iteration
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await client.aclose()
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.fault("F41")
async def test_closing_during_calls_fails_each_of_them():
    client = mcpwire.Client(scripted("handshake()\nwhile True: recv()"))
    await client.connect()
    calls = [asyncio.create_task(client.call_tool("x")) for _ in range(10)]
    await asyncio.sleep(0)  # one loop iteration
    await client.aclose()
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {mcpwire.ConnectionClosed}
    assert "closed by this side" in str(outcomes[0])


async def test_closing_from_a_notification_callback_works():
    target = scripted(
        "handshake()\nrecv()\nsend({'jsonrpc': '2.0', 'method':"
        " 'notifications/tools/list_changed'})\nwhile True: recv()"
    )
    closed = asyncio.Event()

    async def close(_):
        await client.aclose()
        closed.set()

    client = mcpwire.Client(target, on_notification=close)
    await client.connect()
    with pytest.raises(mcpwire.ConnectionClosed):
        await client.call_tool("x")
    await closed.wait()


@pytest.mark.system("U38")
async def test_calls_before_connecting_and_after_closing_are_refused():
    client = mcpwire.Client(echo())
    with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
        await client.call_tool("x")
    with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
        await client.notify("x")
    await client.aclose()
    await client.connect()
    await client.aclose()
    with pytest.raises(mcpwire.LocalProtocolError, match="not connected"):
        await client.ping()


@pytest.mark.pain("P11")
async def test_another_event_loop_is_refused():
    client = mcpwire.Client(echo())
    errors = []

    async def misuse():
        call, notify = (lambda: client.call_tool("x")), (lambda: client.notify("x"))
        for use in (client.connect, client.aclose, call, notify):
            try:
                await use()
            except mcpwire.MCPError as error:
                errors.append(error)

    await client.connect()
    thread = threading.Thread(target=lambda: asyncio.run(misuse()))
    thread.start()
    await asyncio.to_thread(thread.join)
    await assert_works(client)
    await client.aclose()
    assert [type(error) for error in errors] == [mcpwire.LocalProtocolError] * 4
    assert all("another event loop" in str(error) for error in errors)


@pytest.mark.pain("P11")
def test_a_client_moves_to_a_new_loop_once_the_old_one_is_gone():
    client = mcpwire.Client(echo())
    asyncio.run(client.connect())  # left open on purpose

    async def again():
        async with client:
            await assert_works(client)

    asyncio.run(again())


def test_without_a_running_loop_the_error_names_the_blocking_client():
    async def connect():
        await mcpwire.Client(echo()).connect()

    coroutine = connect()
    with pytest.raises(mcpwire.LocalProtocolError, match=r"mcpwire\.sync"):
        coroutine.send(None)


@pytest.mark.system("L-R8")
@pytest.mark.fault("F41")
async def test_a_garbage_collected_client_kills_its_child():
    holder = [mcpwire.Client(echo())]
    await holder[0].connect()
    collect_with_its_child(holder)


def test_a_client_collected_after_its_loop_kills_its_child():
    holder = [mcpwire.Client(echo())]
    asyncio.run(holder[0].connect())
    collect_with_its_child(holder)


def collect_with_its_child(holder):
    pid = pid_of(holder[0])
    with pytest.warns(ResourceWarning, match="unclosed"):
        collect(holder)
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_abandon_kills_a_connecting_child_without_a_loop(tmp_path):
    """As after an interrupt that stopped the loop."""
    begun = tmp_path / "begun"
    client = mcpwire.Client(
        scripted(f"open({str(begun)!r}, 'w').write(str(os.getpid()))\nwhile 1: recv()")
    )
    loop = asyncio.new_event_loop()
    connecting = loop.create_task(client.connect())
    while not begun.exists() or not begun.read_text():
        loop.run_until_complete(asyncio.sleep(0))  # one loop iteration
    client.abandon()
    with pytest.raises(ProcessLookupError):
        os.kill(int(begun.read_text()), 0)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(connecting)
    loop.run_until_complete(client.aclose())
    loop.close()


async def test_an_attempted_copy_leaves_a_client_open():
    async with mcpwire.Client(echo()) as client:
        with pytest.raises(TypeError, match="'Client' cannot be copied"):
            copy.copy(client)
        await assert_works(client)


async def test_a_repr_is_one_line_with_state_and_revision():
    client = mcpwire.Client(echo(), recovery=mcpwire.Recovery(restart=False))
    assert repr(client).endswith("not connected>")
    task = asyncio.create_task(client.connect())
    await asyncio.sleep(0)  # one loop iteration
    assert repr(client).endswith("connecting>")
    await task
    assert repr(client).endswith("connected, 2025-11-25>")
    assert "\n" not in repr(client)
    os.kill(pid_of(client), 9)
    with pytest.raises(mcpwire.ConnectionClosed):
        await client.call_tool("x")
    assert "lost: the server was killed by SIGKILL" in repr(client)
    task = asyncio.create_task(client.aclose())
    await asyncio.sleep(0)  # one loop iteration
    assert repr(client).endswith("closing>")
    await task


async def test_a_repr_does_not_grow_with_its_command():
    client = mcpwire.Client(mcpwire.Stdio("x", ["y" * 10_000]))
    assert len(repr(client)) < 200

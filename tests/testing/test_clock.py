"""Timers of a virtual clock take no time; what is real takes the time it takes."""

import asyncio
import os
import socket
import subprocess
import sys
import threading
import time

import pytest

import mcpwire
from mcpwire.testing import (
    SILENCE,
    ScriptedServer,
    VirtualClockLoop,
    in_turn,
    later,
    run,
    scripted_command,
    text,
)

# The times of most tests are hours or days: one that waited for them would never end.


def manually(main):
    return run(main, auto_advance=False)


# By itself...


def test_timers_fire_in_their_order_each_at_its_time():
    fired = []

    async def sleeper(seconds):
        await asyncio.sleep(seconds)
        fired.append((seconds, asyncio.get_running_loop().time()))

    async def main():
        await asyncio.gather(*(sleeper(s) for s in (3, 0.1, 7.5, 0, 3600, 0.3)))

    run(main())
    assert [s for s, _ in fired] == [0, 0.1, 0.3, 3, 7.5, 3600]
    assert [at - 1000 for _, at in fired] == pytest.approx([0, 0.1, 0.3, 3, 7.5, 3600])


def test_the_clock_stands_while_anything_is_ready():
    async def main():
        loop = asyncio.get_running_loop()
        started = loop.time()
        for _ in range(1000):
            await asyncio.sleep(0)
        return loop.time() - started

    assert run(main()) == 0


def test_a_test_that_can_never_end_is_ended():
    async def main():
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="nothing can ever happen"):
        run(main())
    with pytest.raises(RuntimeError, match="use `advance`"):
        manually(asyncio.sleep(1))


def test_a_test_that_waits_for_silent_descriptors_is_ended_too():
    async def main():
        near, far = socket.socketpair()
        with near, far:
            near.setblocking(False)
            await asyncio.get_running_loop().sock_recv(near, 1)

    with pytest.raises(RuntimeError, match=r"nothing happened for 0\.05 s"):
        run(main(), patience=0.05)


# By hand...


def test_advancing_fires_each_timer_at_its_time_and_no_later_one():
    async def main():
        loop = asyncio.get_running_loop()
        fired = []

        def tick():
            fired.append(loop.time() - started)
            loop.call_later(10, tick)

        started = loop.time()
        loop.call_later(10, tick)
        await loop.advance(9.999)
        assert fired == []
        await loop.advance(0.001)
        assert fired == pytest.approx([10])
        await loop.advance(25)
        assert fired == pytest.approx([10, 20, 30])
        assert loop.time() - started == pytest.approx(35)
        await loop.advance(0)
        assert len(fired) == 3

    manually(main())


def test_advancing_waits_until_what_the_timers_woke_has_come_to_rest():
    async def main():
        done = asyncio.Event()

        async def slowly():
            await asyncio.sleep(5)
            for _ in range(50):
                await asyncio.sleep(0)
            done.set()

        task = asyncio.create_task(slowly())
        await asyncio.get_running_loop().advance(5)
        assert done.is_set()
        await task

    manually(main())
    run(main())


def test_a_jump_makes_all_timers_late_at_once():
    async def main():
        loop = asyncio.get_running_loop()
        fired = []
        for seconds in (1, 2, 100):
            loop.call_later(seconds, lambda: fired.append(loop.time() - started))
        started = loop.time()
        loop.jump(50)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert fired == [50, 50]

    manually(main())


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_time_does_not_go_backwards(seconds):
    async def main():
        loop = asyncio.get_running_loop()
        with pytest.raises(ValueError, match="forward"):
            await loop.advance(seconds)
        with pytest.raises(ValueError, match="forward"):
            loop.jump(seconds)

    manually(main())


def test_only_one_task_advances_the_clock_and_may_be_cancelled():
    async def main():
        loop = asyncio.get_running_loop()
        first = asyncio.create_task(loop.advance(1000))
        await asyncio.sleep(0)
        with pytest.raises(RuntimeError, match="already"):
            await loop.advance(1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        await loop.advance(1)

    manually(main())


# With what is real...


def test_the_clock_goes_with_the_real_one_while_a_descriptor_is_watched():
    async def main():
        loop = asyncio.get_running_loop()
        reader, writer = os.pipe()
        loop.add_reader(reader, lambda: None)
        before = time.monotonic()
        await asyncio.sleep(0)  # the clock is set with each turn
        started, since = loop.time(), time.monotonic()
        await asyncio.sleep(0.05)
        until = time.monotonic()
        await asyncio.sleep(0)
        passed, after = loop.time() - started, time.monotonic()
        loop.remove_reader(reader)
        os.close(reader)
        os.close(writer)
        assert passed >= 0.05
        assert until - since - 1e-6 <= passed <= after - before + 1e-6
        await asyncio.sleep(3600)

    run(main())


def test_timers_fire_although_a_descriptor_is_always_ready():
    async def main():
        loop = asyncio.get_running_loop()
        reader, writer = os.pipe()
        os.write(writer, b"x")
        loop.add_reader(reader, lambda: None)
        try:
            await asyncio.sleep(0.02)
        finally:
            loop.remove_reader(reader)
            os.close(reader)
            os.close(writer)

    run(main())


def test_work_in_the_executor_is_waited_for_in_real_time():
    async def main():
        loop = asyncio.get_running_loop()
        started = loop.time()
        async with asyncio.timeout(60):
            assert await asyncio.to_thread(time.sleep, 0.02) is None
        assert loop.time() - started < 10
        await asyncio.sleep(3600)

    run(main())


def test_a_thread_that_ended_before_it_was_looked_for_has_woken_the_loop():
    loop = VirtualClockLoop()
    try:
        assert loop._wait_for_io(lambda seconds: ["woken"], "so") == ["woken"]
        with pytest.raises(RuntimeError, match="nothing can ever happen"):
            loop._wait_for_io(lambda seconds: [], "so")
    finally:
        loop.close()


def test_work_that_the_loop_cannot_see_can_be_declared():
    async def main():
        loop = asyncio.get_running_loop()
        done = asyncio.Event()
        thread = threading.Timer(0.02, loop.call_soon_threadsafe, [done.set])
        async with asyncio.timeout(60):
            with loop.real_time():
                thread.start()
                await done.wait()
        thread.join()

    run(main())


@pytest.mark.parametrize("name", ["asyncio-waitpid-7", "waitpid-7", "mcpwire-reaper"])
def test_a_thread_that_waits_for_a_child_is_real_until_it_ends(name):
    async def main():
        loop = asyncio.get_running_loop()
        release = threading.Event()
        thread = threading.Thread(target=release.wait, name=name)
        thread.start()
        started = loop.time()
        await asyncio.sleep(0.01)
        assert loop.time() - started < 10
        threading.Timer(0.02, release.set).start()  # and nobody wakes the loop
        await asyncio.sleep(3600)
        thread.join()

    run(main())


def test_a_child_process_of_asyncio_is_no_reason_to_run_away():
    async def main():
        async with asyncio.timeout(60):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", "print('hi')", stdout=subprocess.PIPE
            )
            out, _ = await process.communicate()
        assert out == b"hi\n"

    run(main())


# A client's time...


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_a_call_of_thirty_seconds_times_out_in_no_time(version):
    async def main():
        server = ScriptedServer({"tools/call": SILENCE}, versions=version)
        async with mcpwire.Client(server) as client:
            with pytest.raises(mcpwire.RequestTimeout) as caught:
                await client.call_tool("x")
            await server.receive("notifications/cancelled")
        assert (caught.value.timeout, caught.value.elapsed) == (30, 30)

    run(main())


def test_a_deadline_is_met_to_the_millisecond():
    async def main():
        loop = asyncio.get_running_loop()
        answers = [later(text("hi"), seconds=seconds) for seconds in (29.99, 31)]
        server = ScriptedServer({"tools/call": in_turn(*answers)})
        async with mcpwire.Client(server) as client:
            call = asyncio.create_task(client.call_tool("x"))
            await loop.advance(29.99)
            assert (await call).text == "hi"
            call = asyncio.create_task(client.call_tool("x"))
            await loop.advance(29.999)
            assert not call.done()
            await loop.advance(0.001)
            assert isinstance(call.exception(), mcpwire.RequestTimeout)
            await loop.advance(1)
            assert client.stats.late_answers + client.stats.unknown_answers == 1

    manually(main())


@pytest.mark.fault("F46")
def test_after_a_sleep_of_ten_minutes_each_call_ends_once_and_the_next_one_works():
    async def main():
        loop = asyncio.get_running_loop()
        server = ScriptedServer({"tools/call": SILENCE})
        async with mcpwire.Client(server) as client:
            calls = [asyncio.create_task(client.call_tool("x")) for _ in range(20)]
            await loop.advance(1)
            loop.jump(600)
            await loop.advance(0)
            errors = [call.exception() for call in calls]
            assert {type(error) for error in errors} == {mcpwire.RequestTimeout}
            assert {error.elapsed for error in errors} == {601}
            assert len(server.requests("notifications/cancelled")) == 20
            server.answers["tools/call"] = text("awake")
            assert (await client.call_tool("x")).text == "awake"
            assert server.connections == 1

    manually(main())


@pytest.mark.fault("F46")
def test_a_sleep_that_cost_the_connection_is_followed_by_one_new_one():
    async def main():
        loop = asyncio.get_running_loop()
        server = ScriptedServer({"tools/call": text("awake")})
        async with mcpwire.Client(server) as client:
            server.hang_up()
            await server.closed()
            loop.jump(600)
            calls = [client.call_tool("x") for _ in range(20)]
            assert [r.text for r in await asyncio.gather(*calls)] == ["awake"] * 20
            assert server.connections == 2

    run(main())


def test_a_real_server_is_waited_for_and_its_silence_needs_no_waiting():
    target = scripted_command("handshake(); recv(); recv()")

    async def main():
        loop = asyncio.get_running_loop()
        async with mcpwire.Client(target) as client:
            call = asyncio.create_task(client.call_tool("x", timeout=300))
            await asyncio.sleep(0)
            await loop.advance(300)
            with pytest.raises(mcpwire.RequestTimeout) as caught:
                await call
        # The clock counts from 1,000 in floats, so 300 may be a rounding less.
        assert caught.value.elapsed == pytest.approx(300)

    run(main())


def test_the_loop_can_be_had_wherever_a_loop_factory_is_taken():
    with asyncio.Runner(loop_factory=VirtualClockLoop) as runner:
        loop = runner.get_loop()
        assert loop.time() == 1000
        runner.run(asyncio.sleep(5))
        assert loop.time() == 1005

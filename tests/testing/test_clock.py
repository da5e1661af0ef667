"""Timers of a virtual clock take no time; real work takes real time."""

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

# Most tests use hours or days: in real time they would never end.


def run_manually(main):
    return run(main, auto_advance=False)


def test_timers_fire_in_order_at_their_times():
    fired = []

    async def sleeper(seconds):
        await asyncio.sleep(seconds)
        fired.append((seconds, asyncio.get_running_loop().time()))

    async def main():
        await asyncio.gather(*(sleeper(s) for s in (3, 0.1, 7.5, 0, 3600, 0.3)))

    run(main())
    assert [s for s, _ in fired] == [0, 0.1, 0.3, 3, 7.5, 3600]
    assert [at - 1000 for _, at in fired] == pytest.approx([0, 0.1, 0.3, 3, 7.5, 3600])


def test_clock_stands_still_while_callbacks_are_ready():
    async def main():
        loop = asyncio.get_running_loop()
        started = loop.time()
        for _ in range(1000):
            await asyncio.sleep(0)
        return loop.time() - started

    assert run(main()) == 0


def test_run_that_can_never_end_raises():
    async def main():
        await asyncio.Event().wait()

    with pytest.raises(RuntimeError, match="nothing can ever happen"):
        run(main())
    with pytest.raises(RuntimeError, match="use `advance`"):
        run_manually(asyncio.sleep(1))


def test_run_waiting_for_silent_descriptors_raises():
    async def main():
        near, far = socket.socketpair()
        with near, far:
            near.setblocking(False)
            await asyncio.get_running_loop().sock_recv(near, 1)

    with pytest.raises(RuntimeError, match=r"nothing happened for 0\.05 s"):
        run(main(), patience=0.05)


def test_advance_fires_due_timers_at_their_times_only():
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

    run_manually(main())


def test_advance_waits_until_woken_tasks_are_idle():
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

    run_manually(main())
    run(main())


def test_jump_fires_all_due_timers_late():
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

    run_manually(main())


@pytest.mark.parametrize("seconds", [-1, float("nan")])
def test_time_does_not_go_backwards(seconds):
    async def main():
        loop = asyncio.get_running_loop()
        with pytest.raises(ValueError, match="forward"):
            await loop.advance(seconds)
        with pytest.raises(ValueError, match="forward"):
            loop.jump(seconds)

    run_manually(main())


def test_second_advance_is_refused_until_the_first_is_cancelled():
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

    run_manually(main())


def test_clock_runs_in_real_time_while_watching_a_descriptor():
    async def main():
        loop = asyncio.get_running_loop()
        reader, writer = os.pipe()
        loop.add_reader(reader, lambda: None)
        before = time.monotonic()
        await asyncio.sleep(0)  # the clock is set in each iteration
        started, real_before = loop.time(), time.monotonic()
        await asyncio.sleep(0.05)
        real_after = time.monotonic()
        await asyncio.sleep(0)
        elapsed, after = loop.time() - started, time.monotonic()
        loop.remove_reader(reader)
        os.close(reader)
        os.close(writer)
        assert elapsed >= 0.05
        assert real_after - real_before - 1e-6 <= elapsed <= after - before + 1e-6
        await asyncio.sleep(3600)

    run(main())


def test_timers_fire_while_a_descriptor_is_always_ready():
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


def test_executor_work_runs_in_real_time():
    async def main():
        loop = asyncio.get_running_loop()
        started = loop.time()
        async with asyncio.timeout(60):
            assert await asyncio.to_thread(time.sleep, 0.02) is None
        assert loop.time() - started < 10
        await asyncio.sleep(3600)

    run(main())


def test_io_wait_notices_a_wakeup_of_a_finished_thread():
    loop = VirtualClockLoop()
    try:
        assert loop._wait_for_io(lambda seconds: ["woken"], "so") == ["woken"]
        with pytest.raises(RuntimeError, match="nothing can ever happen"):
            loop._wait_for_io(lambda seconds: [], "so")
    finally:
        loop.close()


def test_real_time_context_declares_hidden_work():
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


@pytest.mark.parametrize("name", ["asyncio-waitpid-7", "waitpid-7", "mcpwire-wait"])
def test_clock_is_real_while_a_thread_waits_for_a_child(name):
    async def main():
        loop = asyncio.get_running_loop()
        release = threading.Event()
        thread = threading.Thread(target=release.wait, name=name)
        thread.start()
        started = loop.time()
        await asyncio.sleep(0.01)
        assert loop.time() - started < 10
        threading.Timer(0.02, release.set).start()  # without waking the loop
        await asyncio.sleep(3600)
        assert release.is_set()
        thread.join()

    run(main())


def test_asyncio_child_process_is_awaited_in_real_time():
    async def main():
        async with asyncio.timeout(60):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-c", "print('hi')", stdout=subprocess.PIPE
            )
            out, _ = await process.communicate()
        assert out == b"hi\n"

    run(main())


@pytest.mark.parametrize("version", ["2025-11-25", "2026-07-28"])
def test_thirty_second_timeout_takes_no_real_time(version):
    async def main():
        server = ScriptedServer({"tools/call": SILENCE}, versions=version)
        async with mcpwire.Client(server) as client:
            with pytest.raises(mcpwire.RequestTimeout) as caught:
                await client.call_tool("x")
            await server.receive("notifications/cancelled")
        assert (caught.value.timeout, caught.value.elapsed) == (30, 30)

    run(main())


def test_deadline_is_exact_to_the_millisecond():
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

    run_manually(main())


def test_real_server_works_and_its_timeout_takes_no_time():
    target = scripted_command("handshake(); recv(); recv()")

    async def main():
        loop = asyncio.get_running_loop()
        async with mcpwire.Client(target) as client:
            call = asyncio.create_task(client.call_tool("x", timeout=300))
            await asyncio.sleep(0)
            await loop.advance(300)
            with pytest.raises(mcpwire.RequestTimeout) as caught:
                await call
        # The clock counts from 1,000 in floats, so 300 may be rounded down.
        assert caught.value.elapsed == pytest.approx(300)

    run(main())


def test_loop_class_works_as_a_loop_factory():
    with asyncio.Runner(loop_factory=VirtualClockLoop) as runner:
        loop = runner.get_loop()
        assert loop.time() == 1000
        runner.run(asyncio.sleep(5))
        assert loop.time() == 1005

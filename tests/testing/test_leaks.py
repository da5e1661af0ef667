"""The leak check sees what it is there for, and nothing else."""

import asyncio
import os
import re
import subprocess
import sys
import threading

import pytest

import mcpwire
from mcpwire.testing import (
    ScriptedServer,
    leak_check,
    leaks,
    procfs,
    scripted_command,
)
from mcpwire.testing.leaks import ResourceSnapshot, watch_tasks


def sleeper():
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_nothing_opened_means_nothing_leaked():
    assert ResourceSnapshot().settle() == []
    with leak_check():
        pass


def test_an_open_descriptor_is_named_with_its_number():
    watch = ResourceSnapshot()
    reader, writer = os.pipe()
    try:
        left = watch.settle(grace=0)
    finally:
        os.close(reader)
        os.close(writer)
    assert [line.split(" -> ")[0] for line in left] == [
        f"descriptor {reader}",
        f"descriptor {writer}",
    ]
    assert watch.settle() == []


def test_a_descriptor_number_used_again_is_still_a_leak():
    first = os.open(os.devnull, os.O_RDONLY)
    watch = ResourceSnapshot()
    os.close(first)
    reader, writer = os.pipe()
    try:
        assert first in {reader, writer}
        assert len(watch.settle(grace=0)) == 2
    finally:
        os.close(reader)
        os.close(writer)


@pytest.mark.skipif(not procfs.HAS_PROC, reason="descriptors have no names here")
def test_the_library_that_ctypes_loads_may_hold_its_own_file(tmp_path):
    watch = ResourceSnapshot()
    with (tmp_path / "libffi.so.8.5.0").open("w"):
        assert watch.find_leaks() == []


def test_descriptors_are_told_apart_where_they_are_no_links(monkeypatch):
    monkeypatch.setattr(leaks, "_DESCRIPTORS", "/dev/fd")
    monkeypatch.setattr(os, "readlink", lambda _: os.close(-1))
    watch = ResourceSnapshot()
    reader, writer = os.pipe()
    left = watch.find_leaks()
    os.close(reader)
    os.close(writer)
    assert [line.split(" -> ")[0] for line in left] == [
        f"descriptor {reader}",
        f"descriptor {writer}",
    ]
    assert watch.find_leaks() == []
    monkeypatch.setattr(leaks, "_DESCRIPTORS", None)
    assert leaks.open_descriptors() == set()


def test_a_child_process_is_named_with_its_command():
    watch = ResourceSnapshot()
    with sleeper() as child:
        named = [line for line in watch.settle(grace=0) if "child" in line]
        child.kill()
    assert len(named) == 1
    assert named[0].startswith(f"child process {child.pid} (")
    assert watch.settle() == []
    assert leaks.describe_child(child.pid).endswith("(gone meanwhile)")


@pytest.mark.skipif(not procfs.HAS_PROC, reason="reads /proc")
@pytest.mark.parametrize("is_listed", [True, False])
def test_children_of_all_threads_are_found_however_they_are_looked_for(
    monkeypatch, is_listed
):
    monkeypatch.setattr(procfs, "LISTS_CHILDREN", is_listed and procfs.LISTS_CHILDREN)
    before, started, end = leaks.children(), [], threading.Event()

    def start():
        started.append(sleeper())
        end.wait()

    thread = threading.Thread(target=start)
    with sleeper() as child:
        thread.start()
        while not started:
            thread.join(0.001)
        with started[0] as other:
            assert leaks.children() - before == {child.pid, other.pid}
            end.set()
            thread.join()
            assert leaks.children() - before == {child.pid, other.pid}
    assert leaks.children() == before


def test_a_child_nobody_waited_for_is_still_a_leak():
    watch = ResourceSnapshot()
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert watch.settle(grace=0) == [f"child process {child.pid} (zombie)"]
    child.wait()
    assert watch.settle() == []


@pytest.mark.parametrize("daemon", [True, False])
def test_a_thread_is_named_with_the_place_where_it_is(daemon):
    watch = ResourceSnapshot()
    release = threading.Event()

    def linger():
        release.wait()

    thread = threading.Thread(target=linger, name="lingering", daemon=daemon)
    thread.start()
    left = watch.settle(grace=0)
    release.set()
    thread.join()
    kind = "daemon thread" if daemon else "thread"
    assert len(left) == 1
    assert re.fullmatch(rf"{kind} 'lingering' in \w+ \(\w+\.py:\d+\)", left[0])
    assert watch.settle() == []
    assert leaks.describe_thread(thread) == f"{kind} 'lingering'"


def test_what_ends_within_the_grace_is_no_leak():
    with leak_check():
        threading.Timer(0.02, lambda: None).start()


def test_what_is_named_to_be_ignored_is_no_leak():
    release = threading.Event()
    with leak_check(grace=0, ignore=["my pool"]):
        thread = threading.Thread(target=release.wait, name="my pool 1")
        thread.start()
    release.set()
    thread.join()


def leave_a_pipe(ends, error=None):
    with leak_check(grace=0):
        ends.extend(os.pipe())
        if error is not None:
            raise error


def test_the_body_of_a_check_fails_with_all_it_left():
    ends = []
    with pytest.raises(AssertionError, match=r"left open: descriptor \d+ .*; desc"):
        leave_a_pipe(ends)
    for fd in ends:
        os.close(fd)


def test_an_error_of_the_body_goes_on_as_it_is():
    ends = []
    with pytest.raises(ZeroDivisionError):
        leave_a_pipe(ends, ZeroDivisionError())
    for fd in ends:
        os.close(fd)


# On a loop...


async def test_a_client_that_is_closed_leaves_nothing():
    for target in (ScriptedServer(), scripted_command("handshake(); recv()")):
        async with (
            asyncio.timeout(40),
            leak_check(grace=30),
            mcpwire.Client(target) as client,
        ):
            assert client.server_info.name == "scripted"


async def test_a_client_that_is_open_is_a_leak_of_all_it_holds():
    client = mcpwire.Client(scripted_command("handshake(); recv()"))
    async with asyncio.timeout(40):
        with pytest.raises(AssertionError) as caught:
            async with leak_check(grace=0):
                await client.connect()
        await client.aclose()
    assert "child process" in str(caught.value)
    assert "pipe:" in str(caught.value)


async def test_a_task_is_named_and_what_the_loop_still_closes_is_no_leak():
    async def forever():
        await asyncio.Event().wait()

    task = None
    with pytest.raises(AssertionError, match=r"task 'mine' of .*forever"):
        async with leak_check(grace=0):
            task = asyncio.create_task(forever(), name="mine")
    async with leak_check(grace=0, ignore=["'other'"]):
        other = asyncio.create_task(forever(), name="other")
    for each in (task, other):
        each.cancel()
    await asyncio.wait([task, other])
    async with leak_check(grace=30):
        reader, writer = os.pipe()
        asyncio.get_running_loop().call_later(0.01, os.close, reader)
        asyncio.get_running_loop().call_later(0.01, os.close, writer)


async def test_an_error_of_an_async_body_goes_on_as_it_is():
    async def fail():
        async with leak_check(grace=0):
            fail.task = asyncio.create_task(asyncio.Event().wait())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    fail.task.cancel()
    await asyncio.wait([fail.task])


def test_a_task_left_running_fails_its_function():
    async def forgetful():
        forgetful.task = asyncio.create_task(asyncio.Event().wait())

    with pytest.raises(AssertionError, match="left running: task"):
        asyncio.run(watch_tasks(forgetful)())


def test_a_task_that_ends_within_some_turns_of_the_loop_is_no_leak():
    async def tidy():
        asyncio.create_task(asyncio.sleep(0))  # noqa: RUF006 - ends by itself
        return 7

    assert asyncio.run(watch_tasks(tidy)()) == 7

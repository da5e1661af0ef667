"""The leak check reports leaked resources, and only those."""

import asyncio
import contextlib
import os
import re
import subprocess
import sys
import threading

import pytest

import mcpwire
from mcpwire.testing import ScriptedServer, leak_check, leaks, procfs, scripted_command
from mcpwire.testing.leaks import ResourceSnapshot, watch_tasks


def sleeper():
    return subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)


def test_no_leak_is_reported_without_open_resources():
    assert ResourceSnapshot().settle() == []
    with leak_check():
        pass


@contextlib.contextmanager
def opened_pipe():
    ends = os.pipe()
    try:
        yield ends
    finally:
        for end in ends:
            os.close(end)


def numbers(leaks):
    """Return the numbers of leaked descriptors."""
    return [int(re.match(r"descriptor (\d+) -> ", line)[1]) for line in leaks]


def test_open_descriptor_is_reported_with_its_number():
    snapshot = ResourceSnapshot()
    with opened_pipe() as ends:
        assert numbers(snapshot.settle(grace=0)) == list(ends)
    assert snapshot.settle() == []


def test_reused_descriptor_number_is_a_leak():
    first = os.open(os.devnull, os.O_RDONLY)
    snapshot = ResourceSnapshot()
    os.close(first)
    with opened_pipe() as ends:
        assert first in ends
        assert len(snapshot.settle(grace=0)) == 2


@pytest.mark.skipif(not procfs.HAS_PROC, reason="descriptors have no names here")
def test_open_libffi_file_is_not_a_leak(tmp_path):
    snapshot = ResourceSnapshot()
    with (tmp_path / "libffi.so.8.5.0").open("w"):
        assert snapshot.find_leaks() == []


@pytest.mark.skipif(not procfs.HAS_PROC, reason="descriptors have no names here")
def test_deleting_a_file_that_was_open_before_is_not_a_leak(tmp_path):
    with (tmp_path / "log").open("w"):
        snapshot = ResourceSnapshot()
        (tmp_path / "log").unlink()
        assert snapshot.find_leaks() == []


def test_descriptors_are_distinguished_without_links(monkeypatch):
    monkeypatch.setattr(leaks, "_DESCRIPTORS", "/dev/fd")
    monkeypatch.setattr(os, "readlink", lambda _: os.close(-1))
    snapshot = ResourceSnapshot()
    with opened_pipe() as ends:
        assert numbers(snapshot.find_leaks()) == list(ends)
    assert snapshot.find_leaks() == []
    monkeypatch.setattr(leaks, "_DESCRIPTORS", None)
    assert leaks.open_descriptors() == set()


def test_child_process_is_reported_with_its_command():
    snapshot = ResourceSnapshot()
    with sleeper() as child:
        reported = [line for line in snapshot.settle(grace=0) if "child" in line]
        child.kill()
    assert len(reported) == 1
    assert reported[0].startswith(f"child process {child.pid} (")
    assert snapshot.settle() == []
    assert leaks.describe_child(child.pid).endswith("(gone meanwhile)")


@pytest.mark.skipif(not procfs.HAS_PROC, reason="reads /proc")
@pytest.mark.parametrize("is_listed", [True, False])
def test_children_of_all_threads_are_found(monkeypatch, is_listed):
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


def test_zombie_child_is_a_leak():
    snapshot = ResourceSnapshot()
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert snapshot.settle(grace=0) == [f"child process {child.pid} (zombie)"]
    child.wait()
    assert snapshot.settle() == []


@pytest.mark.parametrize("daemon", [True, False])
def test_thread_is_reported_with_its_code_location(daemon):
    snapshot = ResourceSnapshot()
    release = threading.Event()

    def linger():
        release.wait()

    thread = threading.Thread(target=linger, name="lingering", daemon=daemon)
    thread.start()
    leaked = snapshot.settle(grace=0)
    release.set()
    thread.join()
    kind = "daemon thread" if daemon else "thread"
    assert len(leaked) == 1
    assert re.fullmatch(rf"{kind} 'lingering' in \w+ \(\w+\.py:\d+\)", leaked[0])
    assert snapshot.settle() == []
    assert leaks.describe_thread(thread) == f"{kind} 'lingering'"


def test_thread_that_ends_within_the_grace_is_not_a_leak():
    with leak_check():
        threading.Timer(0.02, lambda: None).start()


def test_ignored_thread_is_not_a_leak():
    release = threading.Event()
    with leak_check(grace=0, ignore=["my pool"]):
        thread = threading.Thread(target=release.wait, name="my pool 1")
        thread.start()
    release.set()
    thread.join()


def leave_a_pipe(ends, error=None, ignore=()):
    with leak_check(grace=0, ignore=ignore):
        ends.extend(os.pipe())
        if error is not None:
            raise error


def test_leak_check_lists_all_leaks_of_its_body():
    ends = []
    for ignore in ((), "another text"):
        with pytest.raises(AssertionError, match=r"left open: descriptor \d+ .*; desc"):
            leave_a_pipe(ends, ignore=ignore)
    for fd in ends:
        os.close(fd)


def test_error_of_the_body_is_raised_unchanged():
    ends = []
    with pytest.raises(ZeroDivisionError):
        leave_a_pipe(ends, ZeroDivisionError())
    for fd in ends:
        os.close(fd)


# On a loop...


async def test_closed_client_leaks_nothing():
    for target in (ScriptedServer(), scripted_command("handshake(); recv()")):
        async with (
            asyncio.timeout(40),
            leak_check(grace=30),
            mcpwire.Client(target) as client,
        ):
            assert client.server_info.name == "scripted"


async def test_open_client_leaks_its_process_and_pipes():
    client = mcpwire.Client(scripted_command("handshake(); recv()"))
    async with asyncio.timeout(40):
        with pytest.raises(AssertionError) as caught:
            async with leak_check(grace=0):
                await client.connect()
        await client.aclose()
    assert "child process" in str(caught.value)
    assert "pipe:" in str(caught.value)


async def test_task_is_reported_by_name_and_pending_closes_are_not():
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
        task = asyncio.create_task(asyncio.sleep(0.02))


async def test_check_may_begin_and_end_in_two_tasks_as_in_a_fixture():
    check = leak_check(grace=0)
    await asyncio.create_task(check.__aenter__())
    await asyncio.create_task(check.__aexit__(None, None, None))


async def test_error_of_an_async_body_is_raised_unchanged():
    async def fail():
        async with leak_check(grace=0):
            fail.task = asyncio.create_task(asyncio.Event().wait())
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    fail.task.cancel()
    await asyncio.wait([fail.task])


def test_task_left_running_fails_the_test_function():
    async def forgetful():
        forgetful.task = asyncio.create_task(asyncio.Event().wait())

    with pytest.raises(AssertionError, match="left running: task"):
        asyncio.run(watch_tasks(forgetful)())


def test_task_that_ends_within_some_iterations_is_not_a_leak():
    async def tidy():
        asyncio.create_task(asyncio.sleep(0))  # noqa: RUF006 - ends by itself
        return 7

    assert asyncio.run(watch_tasks(tidy)()) == 7

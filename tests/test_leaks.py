"""The leak check sees what it is there for."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import leaks
import pytest

TESTS = Path(__file__).parent


def test_nothing_opened_means_nothing_leaked():
    assert leaks.Watch().settle() == []


def test_an_open_descriptor_is_named_with_its_number():
    watch = leaks.Watch()
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
    watch = leaks.Watch()
    os.close(first)
    reader, writer = os.pipe()
    try:
        assert first in {reader, writer}
        assert len(watch.settle(grace=0)) == 2
    finally:
        os.close(reader)
        os.close(writer)


def test_a_child_process_is_named_with_its_command():
    watch = leaks.Watch()
    with subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE
    ) as child:
        named = [line for line in watch.settle(grace=0) if "child" in line]
        child.kill()
    assert len(named) == 1
    assert named[0].startswith(f"child process {child.pid} (")
    assert watch.settle() == []


def test_a_child_nobody_waited_for_is_still_a_leak():
    watch = leaks.Watch()
    child = subprocess.Popen(["true"])
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert watch.settle(grace=0) == [f"child process {child.pid} (zombie)"]
    child.wait()
    assert watch.settle() == []


def test_a_task_left_running_fails_its_test():
    async def forgetful():
        forgetful.task = asyncio.create_task(asyncio.Event().wait())

    with pytest.raises(pytest.fail.Exception, match="left tasks running"):
        asyncio.run(leaks.watch_tasks(forgetful)())


def test_a_task_that_ends_within_some_turns_of_the_loop_is_no_leak():
    async def tidy():
        asyncio.create_task(asyncio.sleep(0))  # noqa: RUF006 - ends by itself

    asyncio.run(leaks.watch_tasks(tidy)())


@pytest.mark.parametrize(
    ("path", "acts"),
    [
        ("wire/test_lines.py", False),
        ("types/test_content.py", False),
        ("protocol/test_peer.py", False),
        ("transports/test_stdio.py", True),
        ("some_new_folder/test_x.py", True),
        ("test_errors.py", True),
    ],
)
def test_only_the_pure_folders_are_left_out(path, acts):
    assert leaks.acts_on(TESTS / path, TESTS) is acts


@pytest.mark.anyio
async def test_async_tests_run_on_asyncio_with_the_watch_around_them(request):
    assert asyncio.get_running_loop().is_running()
    assert request.node.obj.__wrapped__ is not None

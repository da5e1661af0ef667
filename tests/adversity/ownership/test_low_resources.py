"""No free descriptors, no memory for a process, pipes of one page: clients survive."""

import asyncio
import errno
import gc
import os
import resource
import subprocess

import pytest
from scripted import ECHO_LOOP, scripted
from shell_server import quick

import mcpwire
import mcpwire.sync
from mcpwire.testing.leaks import open_descriptors

pytestmark = pytest.mark.fault("F47")


@pytest.fixture
def leave():
    """Return a function that limits the free descriptors until the test ends."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)

    def limit_to(free):
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)  # listing takes one, too
        used = {number for number, _ in open_descriptors()}
        limit = 0
        while free or limit in used:
            free -= limit not in used
            limit += 1
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limits[1]))

    yield limit_to
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)


async def assert_works(client):
    assert (await client.call_tool("x")).text


@pytest.mark.parametrize("free", range(14))
async def test_connect_with_few_descriptors_works_or_names_the_error(leave, free):
    async with mcpwire.Client(quick()) as existing:
        async with mcpwire.Client(quick()) as warm_up:
            await assert_works(warm_up)  # imports on first use need descriptors too
        before = open_descriptors()
        other = mcpwire.Client(quick())
        leave(free)
        failed = await asyncio.gather(other.connect(), return_exceptions=True)
        if failed[0] is not None:
            assert type(failed[0]) is mcpwire.ConnectError
            assert failed[0].errno == errno.EMFILE
            assert "/bin/sh" in str(failed[0])
        else:
            await assert_works(other)
        await assert_works(existing)
        leave(100)
        if failed[0] is not None:
            assert open_descriptors() == before
        await other.connect()
        await assert_works(other)
        await other.aclose()
        await assert_works(existing)
    assert (failed[0] is None) >= (free >= 12)
    assert (failed[0] is not None) >= (free < 6)


# The finaliser of asyncio's own half-made loop fails.
@pytest.mark.filterwarnings("ignore:unclosed event loop:ResourceWarning")
@pytest.mark.filterwarnings(
    "ignore:Exception ignored .* <function BaseEventLoop.__del__"
    ":pytest.PytestUnraisableExceptionWarning"
)
def test_blocking_client_without_descriptors_connects_later(leave):
    client = mcpwire.sync.Client(quick())
    with client:
        client.call_tool("x")  # imports on first use need descriptors too
    leave(1)
    with pytest.raises(OSError, match="Too many open files") as caught:
        client.connect()
    assert caught.value.errno == errno.EMFILE
    del caught
    gc.collect()
    leave(100)
    with client:
        assert client.call_tool("x").text


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EAGAIN, errno.ENFILE])
async def test_failed_process_creation_is_a_connect_error(number, monkeypatch):
    def refuse(*_, **__):
        raise OSError(number, os.strerror(number))

    async with mcpwire.Client(quick()) as existing:
        other = mcpwire.Client(quick())
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", refuse)
            with pytest.raises(mcpwire.ConnectError) as caught:
                await other.connect()
            assert caught.value.errno == number
            assert os.strerror(number) in str(caught.value)
            await assert_works(existing)
        async with other:
            await assert_works(other)


async def test_pipes_of_one_page_carry_larger_messages():
    target = scripted(
        "import fcntl\n"
        "for fd in (0, 1, 2): fcntl.fcntl(fd, fcntl.F_SETPIPE_SZ, 4096)\n"
        "os.write(2, b'e' * 1_000_000)\nhandshake()\n" + ECHO_LOOP
    )
    async with mcpwire.Client(target) as client:
        for size in (1, 4095, 4096, 4097, 1_000_000):
            text = "a" * size
            assert (await client.call_tool("x", {"text": text})).text == text
        results = await asyncio.gather(
            *(client.call_tool("x", {"text": str(n) * 2000}) for n in range(50))
        )
        assert [r.text for r in results] == [str(n) * 2000 for n in range(50)]


async def test_exit_is_detected_without_a_pidfd(monkeypatch):
    def refuse(*_):
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    monkeypatch.setattr(os, "pidfd_open", refuse)
    target = scripted("handshake()\nrecv()\nos._exit(4)")
    async with mcpwire.Client(target) as client:
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            await client.call_tool("x")
    assert caught.value.exit_code == 4

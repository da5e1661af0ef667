"""Any number of threads share one client: they connect, call and close in any order."""

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from scripted import ECHO_LOOP, scripted
from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync

CALLS = 2_000
MANY_CALLS = 20_000
"""With `--all-grounds`, as in `make verify`."""


@pytest.mark.system("L-U3")
@pytest.mark.pain("P12", "P29")
@pytest.mark.parametrize("background", [False, True])
@pytest.mark.grounds(5, "echo")
def test_eight_threads_share_one_client_and_none_gets_anothers_answer(
    echo, background, request, threads
):
    count = MANY_CALLS if request.config.getoption("--all-grounds") else CALLS
    if background:
        count //= 10

    def work(thread):
        wrong = []
        for number in range(count // 8):
            said = f"{thread}.{number}"
            answer = client.call_tool("echo", {"text": said}, timeout=BOUND_S).text
            if answer != said:
                wrong.append((said, answer))
        return wrong

    with mcpwire.sync.Client(echo.target, background=background) as client:
        before = client.stats.requests
        running = [threads.submit(work, number) for number in range(8)]
        assert [each.result() for each in running] == [[]] * 8
        assert client.stats.requests - before == count
        assert client.stats.connections == 1

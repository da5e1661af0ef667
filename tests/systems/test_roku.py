"""What roku-plugin-mcp promises of calls that block, held by the blocking client."""

import threading

import pytest
from scripted import ECHO_LOOP, scripted

import mcpwire
import mcpwire.sync

BOUND_S = 20
THREADS, CALLS = 5, 20


@pytest.mark.system("R04", "L-R2")
def test_a_hundred_calls_of_many_threads_need_no_thread_of_ours():
    most, wrong = [], []

    def work(client, thread):
        for number in range(CALLS):
            said = f"{thread}.{number}"
            if client.call_tool("x", {"text": said}).text != said:
                wrong.append(said)
            most.append(threading.active_count())

    target = scripted("handshake()\n" + ECHO_LOOP)
    before = threading.active_count()
    with mcpwire.sync.Client(target) as client:
        connected = threading.active_count()
        threads = [
            threading.Thread(target=work, args=(client, number))
            for number in range(THREADS)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND_S)
        assert not any(thread.is_alive() for thread in threads)
        assert client.stats.requests == THREADS * CALLS + 2
    assert wrong == []
    assert connected == before == threading.active_count()
    assert max(most) <= before + THREADS


@pytest.mark.system("R02", "R05")
def test_a_failure_is_told_by_its_class_and_its_attributes():
    with pytest.raises(mcpwire.ConnectError) as spawn:
        mcpwire.sync.Client("no-such-command-at-all").connect()
    assert spawn.value.errno is not None
    assert "no-such-command-at-all" in str(spawn.value)
    with pytest.raises(mcpwire.ConnectError) as handshake:
        mcpwire.sync.Client(scripted("sys.exit(3)")).connect()
    assert handshake.value.exit_code == 3
    with pytest.raises(mcpwire.NegotiationError):
        mcpwire.sync.Client(scripted("handshake('1999-01-01')")).connect()

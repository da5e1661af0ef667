"""Agreeing with servers of every revision and temper, from a blocking client."""

import sys
import threading
from pathlib import Path
from time import monotonic

import pytest
from scripted import ECHO_LOOP, scripted

sys.path.insert(0, str(Path(__file__).parent))

from waiting import BOUND_S, until

import mcpwire
import mcpwire.sync
from mcpwire.sync._lead import Waiter

SESSIONS = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")

REST = ECHO_LOOP


def connected(body, **options):
    with mcpwire.sync.Client(scripted(body), **options) as client:
        assert client.is_connected
        return client


@pytest.mark.parametrize("version", SESSIONS)
@pytest.mark.parametrize("mode", ["auto", "session"])
def test_every_session_revision_is_agreed_on(version, mode):
    client = connected(f"handshake({version!r})\n{REST}", mode=mode)
    assert client.protocol_version == version
    assert client.server_info.name == "scripted"


@pytest.mark.parametrize("mode", ["auto", "stateless", "2026-07-28"])
def test_the_stateless_revision_is_agreed_on(mode):
    client = connected("discover()\nwhile True: recv()", mode=mode)
    assert client.protocol_version == "2026-07-28"
    assert client.negotiation.reason == "the server answered the probe"


def test_a_server_that_crashes_on_the_probe_is_started_again(tmp_path):
    body = (
        "import pathlib; flag = pathlib.Path(sys.argv[1])\n"
        "if not flag.exists():\n    flag.touch(); recv(); sys.exit(1)\n"
        f"handshake()\n{REST}"
    )

    def run(path):
        with mcpwire.sync.Client(scripted(body, str(path))) as client:
            return client.protocol_version, [
                step.event for step in client.negotiation.steps
            ]

    version, events = run(tmp_path / "flag")
    assert version == "2025-11-25"
    assert "the connection ended" in events


def test_silence_sends_initialize_beside_the_open_probe_and_either_answer_wins():
    slow = (
        "probe = recv(); second = recv()\n"
        "assert second['method'] == 'initialize'\n"
        "answer(probe, {'resultType': 'complete', 'supportedVersions': ['2026-07-28'],"
        " 'capabilities': {'tools': {}}, 'ttlMs': 0, 'cacheScope': 'private'})\n"
        "while True: recv()"
    )
    client = connected(slow, probe_timeout=0.1)
    assert client.protocol_version == "2026-07-28"
    legacy = (
        "recv(); second = recv()\n"
        "answer(second, {'protocolVersion': '2025-06-18', 'capabilities': {},"
        " 'serverInfo': {'name': 's', 'version': '1'}})\n"
        "assert recv()['method'] == 'notifications/initialized'\n"
        "while True: assert 'cancel' not in recv()['method']"
    )
    client = connected(legacy, probe_timeout=0.1)
    assert client.protocol_version == "2025-06-18"
    assert [step.event for step in client.negotiation.steps][1] == "silence"


@pytest.mark.parametrize(
    ("body", "error", "says"),
    [
        ("sys.exit(3)", mcpwire.ConnectError, "exited with code 3"),
        ("print('hello'); sys.exit(0)", mcpwire.ConnectError, "first: 'hello'"),
        (
            "handshake('1999-01-01')\n",
            mcpwire.NegotiationError,
            "the server speaks 1999-01-01",
        ),
        (
            (
                "while True:\n    m = recv()\n    send({'jsonrpc': '2.0',"
                " 'id': m['id'], 'error': {'code': -32000, 'message': 'go away'}})"
            ),
            mcpwire.NegotiationError,
            "go away",
        ),
    ],
)
@pytest.mark.usefixtures("last_words_are_awaited")
def test_a_handshake_that_fails_says_why(body, error, says):
    client = mcpwire.sync.Client(scripted(body))
    with pytest.raises(error, match=says):
        client.connect()
    assert not client.is_connected
    assert client.negotiation.revision is None


def test_a_command_that_cannot_start_is_a_connect_error_for_all_who_wait():
    client = mcpwire.sync.Client("/no/such/program")
    with pytest.raises(mcpwire.ConnectError, match="/no/such/program"):
        client.connect()


def test_noise_before_the_handshake_is_counted_and_quoted_when_it_fails():
    client = mcpwire.sync.Client(
        scripted("print('Welcome!', flush=True)\nwhile True: recv()"),
        connect_timeout=2.0,  # it has to start and to say that within these
        mode="session",
    )
    with pytest.raises(mcpwire.RequestTimeout, match=r"Welcome!") as caught:
        client.connect()
    assert caught.value.method == "initialize"


@pytest.mark.fault("F41")
def test_a_lost_server_is_started_again_for_the_next_call_of_any_thread():
    body = (
        "handshake()\nwhile True:\n    m = recv()\n"
        "    if m.get('params', {}).get('name') == 'die': os._exit(1)\n"
        "    text(m, str(os.getpid()))"
    )
    with mcpwire.sync.Client(scripted(body)) as client:
        first = client.call_tool("x").text
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            client.call_tool("die")
        assert caught.value.sent
        answers = []
        threads = [
            threading.Thread(target=lambda: answers.append(client.call_tool("x").text))
            for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(BOUND_S)
        assert len(answers) == 6
        assert len(set(answers)) == 1
        assert first not in answers
        assert client.stats.connections == 2


@pytest.mark.usefixtures("last_words_are_awaited")
def test_a_server_that_always_dies_is_given_up_and_the_call_says_so(tmp_path):
    body = (
        "import pathlib; flag = pathlib.Path(sys.argv[1])\n"
        "if flag.exists(): sys.exit(7)\n"
        "handshake()\nflag.touch()\ntext(recv(), 'once')\nsys.exit(0)"
    )
    quick = mcpwire.Recovery(attempts=3, backoff_initial=0.01, backoff_max=0.05)
    target = scripted(body, str(tmp_path / "flag"))
    with mcpwire.sync.Client(target, recovery=quick) as client:
        assert client.call_tool("x").text == "once"
        channel = client._connection.channel
        until(lambda: channel.wait(Waiter(), 0.01) or channel.lost)
        with pytest.raises(mcpwire.ConnectError) as caught:
            client.call_tool("x")
        assert caught.value.exit_code == 7


def test_a_call_that_waits_for_a_restart_keeps_its_own_deadline(tmp_path):
    body = (
        "import pathlib; flag = pathlib.Path(sys.argv[1])\n"
        "if flag.exists():\n    while True: recv()\n"
        "handshake()\nflag.touch()\nsys.exit(0)"
    )
    target = scripted(body, str(tmp_path / "flag"))
    with mcpwire.sync.Client(target, background=True) as client:
        until(lambda: not client.is_connected)
        started = monotonic()
        with pytest.raises(mcpwire.RequestTimeout, match="being opened again"):
            client.call_tool("x", timeout=0.5)
        assert 0.5 <= monotonic() - started < 10


def test_a_quiet_server_that_stops_answering_pings_is_given_up():
    target = scripted("handshake()\nwhile True: recv()")
    patience = mcpwire.Recovery(restart=False)
    with (
        mcpwire.sync.Client(target, keepalive=0.1, recovery=patience) as client,
        pytest.raises(mcpwire.ConnectionClosed, match="did not answer a ping"),
    ):
        client.call_tool("x", timeout=BOUND_S)

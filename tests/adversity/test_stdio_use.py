"""Failures on an open stdio connection."""

import asyncio
import json

import pytest
from programs import LEFT_S, is_running, seconds_until
from scripted import pid_of, scripted

import mcpwire


@pytest.mark.fault("F07")
async def test_non_reading_child_blocks_neither_tasks_nor_closing():
    target = scripted("handshake()\ntime.sleep(60)")
    limits = mcpwire.Limits(close_grace=0.1, terminate_grace=0.5)
    client = mcpwire.Client(target, limits=limits)
    await client.connect()
    big = asyncio.create_task(client.call_tool("x", {"data": "a" * 2**20}, timeout=0.3))
    iterations = 0
    while not big.done():
        await asyncio.sleep(0)  # iterations of the loop while the pipe is full
        iterations += 1
    with pytest.raises(mcpwire.RequestTimeout):
        await big
    assert iterations > 5
    await client.aclose()


@pytest.mark.fault("F08")
@pytest.mark.pain("P07")
async def test_a_child_that_floods_its_output_can_be_closed():
    target = scripted(
        "handshake()\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        'line = b\'{"jsonrpc":"2.0","method":"notifications/x"}\\n\' * 1000\n'
        "while True: raw(line)"
    )
    limits = mcpwire.Limits(close_grace=0.2, terminate_grace=0.2)
    client = mcpwire.Client(target, limits=limits)
    await client.connect()
    await client.aclose()


@pytest.mark.system("V21")
@pytest.mark.fault("F09")
@pytest.mark.pain("P06", "P07")
@pytest.mark.parametrize(
    "wrapper",
    ["while True: recv()", "while True: time.sleep(60)"],
    ids=["ends with its input", "ignores everything too"],
)
async def test_stubborn_grandchild_is_killed_on_close(wrapper):
    target = scripted(
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = os.fork()\n"
        "if child == 0:\n    while True: time.sleep(60)\n"
        "os.write(2, str(child).encode())\nhandshake()\n" + wrapper,
        stderr=(written := []).append,
    )
    limits = mcpwire.Limits(close_grace=0.15, terminate_grace=0.15)
    client = mcpwire.Client(target, limits=limits)
    await client.connect()
    child = pid_of(client)
    await client.aclose()
    for pid in (child, int(b"".join(written))):  # killed, and perhaps not yet reaped
        assert seconds_until(lambda pid=pid: not is_running(pid)) < LEFT_S, pid


@pytest.mark.fault("F09")
async def test_exit_is_detected_although_a_grandchild_holds_the_pipe():
    target = scripted(
        "handshake()\nrecv()\nif os.fork() == 0:\n    time.sleep(60)\nos._exit(5)"
    )
    limits = mcpwire.Limits(close_grace=0.2, terminate_grace=0.2)
    async with mcpwire.Client(target, limits=limits) as client:
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            await client.call_tool("x")
        assert caught.value.exit_code == 5


@pytest.mark.system("V23")
@pytest.mark.fault("F12")
@pytest.mark.pain("P15")
@pytest.mark.rule("TR-STDIO-02")
async def test_noise_between_messages_is_counted_and_kept():
    target = scripted(
        "handshake()\nm = recv()\n"
        "raw(b'hello\\n\\n[1]\\n\"x\"\\nnull\\n{}\\n42\\n'); text(m, 'ok'); recv()"
    )
    async with mcpwire.Client(target) as client:
        assert (await client.call_tool("x")).text == "ok"
        stats = client.stats
        assert stats.noise_lines == 6
        assert stats.noise == ("hello", "[1]", '"x"', "null", "{}", "42")


@pytest.mark.fault("F13")
@pytest.mark.pain("P17")
async def test_bad_byte_fails_one_line_and_a_bom_is_ignored():
    target = scripted(
        "raw(b'\\xef\\xbb\\xbf'); handshake()\n"
        "m = recv(); raw(b'\\xff\\xfe junk\\n')\n"
        'raw(b\'{"jsonrpc":"2.0","id":%d,"result":{"content":[{"type":'
        '"text","text":"\\xff"}]}}\\n\' % m[\'id\'])\n'
        "m = recv(); text(m, 'fine'); recv()"
    )
    async with mcpwire.Client(target) as client:
        with pytest.raises(mcpwire.InvalidMessage) as caught:
            await client.call_tool("x")
        assert b"\xff" in caught.value.raw
        assert (await client.call_tool("y")).text == "fine"
        assert client.stats.noise_lines == 1


@pytest.mark.system("V23")
@pytest.mark.fault("F14")
@pytest.mark.pain("P18")
@pytest.mark.parametrize("id", ["str(m['id'])", "float(m['id'])"])
async def test_response_id_of_another_type_fails_its_call(id):
    target = scripted(
        "handshake()\nm = recv()\n"
        f"send({{'jsonrpc': '2.0', 'id': {id}, 'result': {{}}}})\nrecv()"
    )
    async with mcpwire.Client(target) as client:
        with pytest.raises(mcpwire.InvalidMessage) as caught:
            await client.call_tool("x", timeout=None)
        assert "changed the type" in str(caught.value)
        assert caught.value.path == "response.id"


@pytest.mark.attack("X12")
async def test_response_of_too_many_values_fails_only_its_call():
    target = scripted(
        "handshake()\na, b = recv(), recv()\n"
        "answer(a, {'content': [], 'a': [{}] * 600_000})\ntext(b, 'small'); recv()"
    )
    limits = mcpwire.Limits(values=600_000)
    async with mcpwire.Client(target, limits=limits) as client:
        large, small = await asyncio.gather(
            client.call_tool("a"), client.call_tool("b"), return_exceptions=True
        )
        assert type(large) is mcpwire.MessageTooLarge
        assert "more than 600000 values (Limits.values)" in str(large)
        assert small.text == "small"


@pytest.mark.system("V25", "L-A4")
async def test_stderr_option_decides_where_stderr_goes(capfd):
    received = []
    target = scripted(
        "print('to you', file=sys.stderr, flush=True)\nhandshake()\nrecv()",
        stderr=received.append,
    )
    async with mcpwire.Client(target):
        pass
    assert b"".join(received) == b"to you\n"
    target = scripted(
        "print('to all', file=sys.stderr, flush=True)\nhandshake()\nrecv()",
        stderr="inherit",
    )
    async with mcpwire.Client(target):
        pass
    assert capfd.readouterr().err == "to all\n"
    with pytest.raises(ValueError, match="stderr"):
        mcpwire.Stdio("x", stderr="elsewhere")


@pytest.mark.system("L-U3")
@pytest.mark.rule("PING-01")
async def test_server_ping_is_answered_and_other_requests_are_refused():
    target = scripted(
        "handshake()\nm = recv()\n"
        "send({'jsonrpc': '2.0', 'id': 'p', 'method': 'ping'}); a = recv()\n"
        "send({'jsonrpc': '2.0', 'id': 9, 'method': 'roots/list'}); b = recv()\n"
        "text(m, json.dumps([a, b])); recv()"
    )
    async with mcpwire.Client(target) as client:
        pong, refusal = json.loads((await client.call_tool("x")).text)
    assert pong == {"jsonrpc": "2.0", "id": "p", "result": {}}
    assert refusal["id"] == 9
    assert refusal["error"]["code"] == -32601


@pytest.mark.rule("RPC-21", "TR-STDIO-08")
async def test_client_of_2026_07_28_answers_no_server_request():
    target = scripted(
        "discover()\nm = recv()\n"
        "send({'jsonrpc': '2.0', 'id': 9, 'method': 'ping'}); text(m, 'ok')\n"
        "n = recv(); text(n, n['method']); recv()"
    )
    async with mcpwire.Client(target) as client:
        assert (await client.call_tool("x")).text == "ok"
        assert (await client.call_tool("y")).text == "tools/call"
        assert client.stats.invalid_messages == 1


PIPE_BYTES = 65_536

DIES_FULL = f"""
import fcntl, struct, termios
handshake()
answer = recv()
send({{"jsonrpc": "2.0", "id": answer["id"], "result": {{"content": []}}}})
def waits():
    return struct.unpack("i", fcntl.ioctl(0, termios.FIONREAD, bytes(4)))[0]
while waits() < {PIPE_BYTES}:
    time.sleep(0.001)
os._exit(3)
"""


@pytest.mark.fault("F04")
@pytest.mark.parametrize(("unwritten", "sent"), [(1, True), (2, False)])
async def test_unsent_newline_counts_as_possibly_sent(unwritten, sent):
    """The child exits when its pipe is full and so many bytes are unwritten."""
    lines = []

    def trace(event, data):
        if event == "send":
            lines.append(bytes(data))

    async with mcpwire.Client(
        scripted(DIES_FULL),
        trace=trace,
        mode="session",
        recovery=mcpwire.Recovery(restart=False),
    ) as client:
        await client.call_tool("fill", {"x": ""})
        room = PIPE_BYTES + unwritten - len(lines[-1].rstrip(b"\n") + b"\n")
        with pytest.raises(mcpwire.ConnectionClosed) as caught:
            await client.call_tool("fill", {"x": "x" * room})
    assert caught.value.sent is sent

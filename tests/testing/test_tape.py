"""A tape keeps what both sides sent; its players repeat one side of it."""

import asyncio
import json
import os
import stat

import pytest

import mcpwire
from mcpwire.testing import (
    Recorder,
    ScriptedServer,
    Tape,
    replay,
    scripted_command,
    text,
)
from mcpwire.testing.tape import MAX_PART_BYTES, Player, play_exactly, read_tape

BOUND_S = 30.0
REVISIONS = [revision.name for revision in mcpwire.REVISIONS]


def make_server():
    """Return a server with state, so that only its tape can answer twice."""
    server = mcpwire.Server("counter", "1")
    count = 0

    @server.tool
    async def up(context: mcpwire.Context, by: int = 1) -> int:
        nonlocal count
        await context.progress(1, 2, "half")
        count += by
        return count

    @server.tool
    async def ask(context: mcpwire.Context) -> str:
        answer = await context.elicit("name?", {"type": "object", "properties": {}})
        return f"{answer.action} {count}"

    @server.resource("demo://a")
    def resource() -> str:
        return f"count {count}"

    return server


def options():
    return {"elicitation": lambda _: {}}


async def session(client):
    """Return the results of a session that uses both directions."""
    steps = []
    results = [
        await client.call_tool("up", on_progress=lambda p: steps.append(p.message)),
        await client.call_tool("up"),
        await client.call_tool("up", {"by": 5}),
        await client.call_tool("ask"),
    ]
    resource = await client.read_resource("demo://a")
    tools = [tool.name for tool in await client.list_tools()]
    return [result.text for result in results], steps, resource.contents[0].text, tools


@pytest.fixture
def path(tmp_path):
    return tmp_path / "tape.jsonl"


def write(path, *entries):
    lines = [{"tape": 1}, *({"at": 0, **entry} for entry in entries)]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def client_line(message, **members):
    return {"from": "client", "text": json.dumps(message) + "\n", **members}


def server_line(message, **members):
    return {"from": "server", "text": json.dumps(message) + "\n", **members}


def call(id, name="up", method="tools/call", **params):
    params = {"name": name, **params}
    return {"jsonrpc": "2.0", "id": id, "method": method, "params": params}


def result(id, value=None):
    return {"jsonrpc": "2.0", "id": id, "result": value or {"n": id}}


def note(method="notifications/message", **params):
    return {"jsonrpc": "2.0", "method": method, "params": params}


def played(player, *messages):
    """Return the messages of the server that follow each message of the client."""
    return [
        [json.loads(line) for line in player.receive(message)] for message in messages
    ]


# --- whole sessions


@pytest.mark.parametrize("mode", REVISIONS)
async def test_tape_plays_a_session_of_each_revision(path, mode):
    with Recorder(path) as recorder:
        client = mcpwire.Client(make_server(), mode=mode, trace=recorder, **options())
        async with client:
            recorded = await session(client)
    tape = Tape(path)
    async with mcpwire.Client(tape, **options()) as client:
        assert client.protocol_version == mode
        assert await session(client) == recorded
    assert not tape.unplayed
    assert not tape.unexpected


@pytest.mark.parametrize("mode", REVISIONS)
async def test_replay_finds_no_difference_to_an_equal_server(path, mode):
    with Recorder(path) as recorder:
        client = mcpwire.Client(make_server(), mode=mode, trace=recorder, **options())
        async with client:
            await session(client)
    assert await replay(path, make_server()) == []


async def test_replay_returns_each_difference(path):
    with Recorder(path) as recorder:
        async with mcpwire.Client(make_server(), trace=recorder) as client:
            await client.call_tool("up")
    server = make_server()
    async with mcpwire.Client(server) as client:
        await client.call_tool("up")
    differences = await replay(path, server)
    assert {(each.path, each.expected, each.actual) for each in differences} == {
        ("result.content.0.text", "1", "2"),
        ("result.structuredContent.result", 1, 2),
    }
    assert str(differences[0]).startswith("tools/call (id ")
    ignored = ["result.content.*.text", "result.structuredContent.*"]
    assert await replay(path, make_server(), ignore=ignored) == []


async def test_subscription_gets_its_changes_after_the_call_that_caused_them(path):
    server = make_server()

    @server.tool
    def add() -> str:
        server.add_tool(lambda: "x", name="extra")
        return "added"

    async def changes(target, trace=None):
        async with (
            mcpwire.Client(target, trace=trace) as client,
            client.listen(tools=True) as changes,
        ):
            waiting = asyncio.ensure_future(anext(aiter(changes)))
            await client.call_tool("up")
            assert not waiting.done()
            await client.call_tool("add")
            async with asyncio.timeout(BOUND_S):
                return (await waiting).method

    with Recorder(path) as recorder:
        recorded = await changes(server, recorder)
    assert await changes(Tape(path)) == recorded


async def test_request_that_is_not_on_the_tape_is_refused(path):
    with Recorder(path) as recorder:
        async with mcpwire.Client(make_server(), trace=recorder) as client:
            await client.call_tool("up")
            await client.call_tool("up", {"by": 2})
    tape = Tape(path)
    async with mcpwire.Client(tape) as client:
        with pytest.raises(mcpwire.RPCError, match="no request 'tools/call up' with"):
            await client.call_tool("up", {"by": 7})
        assert (await client.call_tool("up")).text == "1"
        assert (await client.call_tool("up")).text == "1"  # the last one again
    (unexpected,) = tape.unexpected
    assert unexpected["params"]["arguments"] == {"by": 7}
    (unplayed,) = tape.unplayed
    assert unplayed["params"]["arguments"] == {"by": 2}


# --- the file


def test_file_is_private_and_replaced(path):
    path.write_text("old")
    path.unlink()
    Recorder(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.write_text("old")
    Recorder(path).close()
    assert path.read_text() == '{"tape":1}\n'


def test_bytes_are_kept_as_they_were(path):
    data = b'{"a":1}\n\xff\xfe\r\n\xe2\x82' + b"x" * (MAX_PART_BYTES + 1)
    with Recorder(path) as recorder:
        for start in range(0, len(data), 300_000):
            recorder.add("client", data[start : start + 300_000])
        recorder.add("client", b"no end")
        recorder.add("server", b"{}\n")
        recorder.end("server")
    parts = read_tape(path)
    assert b"".join(p.data for p in parts if p.side == "client") == data + b"no end"
    assert parts[0].data == b'{"a":1}\n'
    assert [(p.data, p.is_end) for p in parts if p.side == "server"] == [
        (b"{}\n", False),
        (b"", True),
    ]
    assert sorted(part.at for part in parts) == [part.at for part in parts]


def test_parts_are_ignored_after_close(path):
    recorder = Recorder(path)
    recorder.close()
    recorder.add("client", b"{}\n")
    assert path.read_text() == '{"tape":1}\n'


def test_credentials_are_masked(path):
    with Recorder(path, secrets=["hunter2", ""]) as recorder:
        recorder.add_head(
            "client",
            "POST /mcp?key=s3cret HTTP/1.1\nAuthorization: Bearer s3cret\n"
            "Cookie: s3cret\nX-Api-Key: s3cret\nAccept: text/html",
            1,
        )
        recorder.add("client", b"grant_type=x&code=s3cret&client_secret=s3cret", 1)
        recorder.add("server", b'{"access_token": "s3c\\"ret", "n": 1}\n', 1)
        recorder.add("client", b'{"password":"hunter2"}\n')
    text = path.read_text()
    assert "s3c" not in text
    assert "hunter2" not in text
    head, answer, *_ = read_tape(path)
    assert head.head == (
        "POST /mcp?*** HTTP/1.1\nAuthorization: ***\nCookie: ***\nX-Api-Key: ***\n"
        "Accept: text/html"
    )
    assert json.loads(answer.data) == {"access_token": "***", "n": 1}


def test_secrets_are_masked_in_each_form_and_in_heads(path):
    secrets = ['p"\\/é', "k" * 20]
    with Recorder(path, secrets=secrets) as recorder:
        for form in (
            json.dumps(secrets[0]),
            json.dumps(secrets[0], ensure_ascii=False),
        ):
            recorder.add("client", form.encode() + b"\n")
        recorder.add("client", b"user=p%22%5C%2F%C3%A9&password=hidden&n=1\n")
        recorder.add_head(
            "server",
            f"HTTP/1.1 302\nX-Id: {'k' * 20}\nMcp-Session-Id: hidden\nLocation: https://a/b?code=hidden\n"
            "Authorization: a\x85hidden",
            1,
        )
        half = MAX_PART_BYTES - 10
        recorder.add("server", b"x" * half + b"k" * 11)
        recorder.add("server", b"k" * 9 + b"\n")
    parts = read_tape(path)
    assert [part.data for part in parts[:3]] == [
        b'"***"\n',
        b'"***"\n',
        b"user=***&password=***&n=1\n",
    ]
    assert parts[3].head == (
        "HTTP/1.1 302\nX-Id: ***\nMcp-Session-Id: ***\nLocation: https://a/b?***\n"
        "Authorization: ***"
    )
    server = b"".join(part.data for part in parts if part.side == "server")
    assert server == b"x" * half + b"***\n"


def test_url_in_a_message_is_recorded_as_it_is(path):
    line = json.dumps(call(1, url="https://a/?b=1&code=c&d=2", n=1)).encode() + b"\n"
    with Recorder(path) as recorder:
        recorder.add("client", line)
        recorder.add_head("client", f"POST /@me/{'a' * 300} HTTP/1.1", 1)
    message, head = read_tape(path)
    assert message.data == line
    assert head.head == f"POST /@me/{'a' * 300} HTTP/1.1"


def test_full_disk_stops_the_recording_with_a_warning(path, caplog):
    os.mkfifo(path)
    reader = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    recorder = Recorder(path)
    os.close(reader)
    recorder.add("client", b"{}\n")
    recorder.add("client", b"{}\n")
    assert [each.getMessage() for each in caplog.records] == [
        f"the tape {path} cannot be continued: [Errno 32] Broken pipe"
    ]


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("", "the tape is empty"),
        ('{"tape":1}\n', "the tape is empty"),
        ('{"tape":2}\n', "line 1: no tape: version 2 is not supported"),
        ("{}\n", "line 1: no tape: 'tape'"),
        ("[]\n", "line 1: no tape"),
        ("no JSON\n", "line 1: no tape"),
        ('{"tape":1}\n{"at":0}\n', "line 2: no tape: 'from'"),
        ('{"tape":1}\n{"at":0,"from":"x"}\n', "'from' must be 'client' or 'server'"),
        ('{"tape":1}\n{"at":"x","from":"client"}\n', "line 2: no tape"),
        ('{"tape":1}\n{"at":0,"from":"client","exchange":"1"}\n', "an integer, got"),
        ('{"tape":1}\n{"at":0,"from":"client","base64":"x"}\n', "line 2: no tape"),
    ],
)
def test_file_that_is_no_tape_is_refused(path, content, problem):
    path.write_text(content)
    with pytest.raises(ValueError, match=problem):
        Tape(path)


# --- matching


def test_answers_have_the_ids_of_the_present_client(path):
    write(
        path,
        client_line(call(1, _meta={"progressToken": "t"})),
        server_line(note("notifications/progress", progressToken="t", progress=1)),
        server_line(result(1)),
    )
    player = Player(read_tape(path))
    assert played(player, call("x", _meta={"progressToken": 9, "other": 1})) == [
        [
            note("notifications/progress", progressToken=9, progress=1),
            result("x", {"n": 1}),
        ]
    ]


def test_requests_in_another_order_get_their_own_answers(path):
    write(
        path,
        client_line(call(1, "a")),
        client_line(call(2, "b")),
        client_line(call(3, "a")),
        server_line(result(2)),
        server_line(result(3)),
        server_line(result(1)),
    )
    player = Player(read_tape(path))
    answers = played(player, *(call(i, n) for i, n in [(7, "b"), (8, "a"), (9, "a")]))
    assert answers == [
        [result(7, {"n": 2})],
        [result(8, {"n": 1})],
        [result(9, {"n": 3})],
    ]


def test_player_waits_for_the_answer_to_a_server_request(path):
    asked = {"jsonrpc": "2.0", "id": "q", "method": "roots/list"}
    write(
        path,
        client_line(call(1)),
        server_line(asked),
        client_line({"jsonrpc": "2.0", "id": "q", "result": {"roots": []}}),
        server_line(note(data="x")),
        server_line(result(1)),
    )
    answer = {"jsonrpc": "2.0", "id": "q", "result": {"roots": [1]}}
    assert played(Player(read_tape(path)), call(1), {"id": "z"}, answer, answer) == [
        [asked],
        [],
        [note(data="x"), result(1)],
        [],
    ]


def test_lines_that_are_no_messages_are_played_and_ignored(path):
    write(
        path,
        server_line(note(data="before any message of the client")),
        client_line(call(1)),
        {"from": "server", "text": "not JSON\n"},
        server_line(result(1)),
    )
    player = Player(read_tape(path))
    assert player.receive(call(1))[0] == b"not JSON\n"
    assert [player.receive(each) for each in (1, "x", [], note("other"))] == [[]] * 4


@pytest.mark.parametrize("id", [[], {}, 1.5, None, "x" * 1000])
def test_ids_of_any_type_are_accepted(path, id):
    write(path, client_line(call(id)), server_line(result(id, {"n": 0})))
    player = Player(read_tape(path))
    assert played(player, {"id": id}, call(id)) == [[], [result(id, {"n": 0})]]
    assert played(player, {"id": id, "method": []}) != []


def exchange(number, message, *answers, content_type="application/json"):
    """Return the entries of a tape for one POST."""
    body = "".join(answers)
    return [
        {"from": "client", "exchange": number, "head": "POST /mcp HTTP/1.1"},
        {"from": "client", "exchange": number, "text": json.dumps(message)},
        {"from": "client", "exchange": number, "end": True},
        {
            "from": "server",
            "exchange": number,
            "head": f"HTTP/1.1 200\ncontent-type: {content_type}",
        },
        {"from": "server", "exchange": number, "text": body[:20]},
        {"from": "server", "exchange": number, "text": body[20:]},
        {"from": "server", "exchange": number, "end": True},
    ]


def test_tape_over_http_has_bodies_batches_and_event_streams(path):
    asked = {"jsonrpc": "2.0", "id": "q", "method": "roots/list"}
    events = [
        f"event: message\r\ndata: {json.dumps(each)}\r\n\r\n"
        for each in (asked, result(2))
    ]
    write(
        path,
        *exchange(1, call(1), json.dumps(result(1), indent=1)),
        *exchange(2, call(2, "ask"), *events, content_type="text/event-stream"),
        *exchange(3, [call(3, "a"), call(4, "b")], json.dumps([result(4), result(3)])),
        *exchange(4, call(5, "html"), "<html>", content_type="text/html"),
    )
    player = Player(read_tape(path))
    requests = [call(1), call(2, "ask"), call(3, "a"), call(4, "b")]
    assert played(player, *requests) == [[result(1)], [asked], [result(3)], [result(4)]]
    assert played(player, {"jsonrpc": "2.0", "id": "q", "result": {}}) == [[result(2)]]
    ((answer,),) = played(player, call(5, "html"))
    assert answer["id"] == 5
    assert answer["error"]["message"] == "no message in the response: HTTP/1.1 200"


def test_clients_with_the_same_ids_and_tokens_get_their_own_answers(path):
    progress = note("notifications/progress", progressToken=1, progress=1)
    meta = {"progressToken": 1}
    first, second = (
        exchange(n, call(1, x, _meta=meta)) for n, x in ((1, "a"), (2, "b"))
    )
    write(
        path,
        *first[:3],
        *second[:3],
        *exchange(
            1,
            None,
            *(
                f"data: {json.dumps(each)}\n\n"
                for each in (progress, result(1, {"n": 1}))
            ),
            content_type="text/event-stream",
        )[3:],
        *exchange(2, None, json.dumps(result(1, {"n": 2})))[3:],
    )
    player = Player(read_tape(path))
    requests = [call(7, "a", _meta={"progressToken": 9}), call(8, "b")]
    assert played(player, *requests) == [
        [
            note("notifications/progress", progressToken=9, progress=1),
            result(7, {"n": 1}),
        ],
        [result(8, {"n": 2})],
    ]


def test_http_responses_of_other_requests_are_no_answers(path):
    refused = {"jsonrpc": "2.0", "id": None, "error": {"code": 1, "message": "no GET"}}
    entries = exchange(1, call(1), json.dumps(result(1)))
    write(
        path,
        *entries[:3],
        *exchange(2, None, json.dumps(refused))[3:],  # a GET
        *exchange(3, {"client_name": "x"}, '{"issuer": "x"}'),  # a login
        *exchange(4, None, "")[3:],  # a DELETE
        *entries[3:],
    )
    assert played(Player(read_tape(path)), call(7)) == [[result(7, {"n": 1})]]


def test_http_response_without_a_message_is_an_error(path):
    entries = exchange(1, call(1), "")
    entries[3]["head"] = "HTTP/1.1 404"
    write(path, *entries)
    (answer,) = played(Player(read_tape(path)), call(7))[0]
    problem = "no message in the response: HTTP/1.1 404"
    assert (answer["id"], answer["error"]["message"]) == (7, problem)


def test_request_before_a_login_is_left_out(path):
    refused = exchange(1, call(1), '{"error": "invalid_token"}')
    refused[3]["head"] = "HTTP/1.1 401"
    write(path, *refused, *exchange(2, call(1), json.dumps(result(1))))
    player = Player(read_tape(path))
    assert played(player, call(7)) == [[result(7, {"n": 1})]]
    assert not player.unplayed


def test_error_without_an_id_does_not_answer_a_request(path):
    error = {"jsonrpc": "2.0", "id": None, "error": {"code": -32700, "message": "x"}}
    write(
        path,
        client_line(call(1)),
        {"from": "client", "text": "not JSON\n"},
        server_line(error),
        server_line(result(1)),
    )
    assert played(Player(read_tape(path)), call(7)) == [[error, result(7, {"n": 1})]]


def test_handshake_without_an_answer_is_refused(path):
    discover = {"jsonrpc": "2.0", "id": 1, "method": "server/discover"}
    write(path, client_line(discover), client_line(call(2)), server_line(result(2)))
    player = Player(read_tape(path))
    (((answer,)), (second,)) = played(player, discover, call(2))
    assert answer["error"]["code"] == -32601
    assert second == result(2)
    assert not player.unplayed


def test_client_without_a_progress_token_gets_no_progress(path):
    write(
        path,
        client_line(call(1, _meta={"progressToken": 0})),
        server_line(note("notifications/progress", progressToken=0, progress=1)),
        server_line(result(1)),
    )
    player = Player(read_tape(path))
    assert played(player, call(7)) == [[result(7, {"n": 1})]]


# --- exact play


def play(path, data):
    """Return what an exact play returns, and what it writes."""
    sent = []
    stream = iter([data[i : i + 3] for i in range(0, len(data), 3)])
    rest = b""

    def read(size):
        nonlocal rest
        rest = rest or next(stream, b"")
        chunk, rest = rest[:size], rest[size:]
        return chunk

    return play_exactly(read_tape(path), read, sent.append), b"".join(sent)


def test_exact_play_compares_bytes(path):
    write(
        path,
        {"from": "client", "text": "hello\n"},
        {"from": "server", "text": "world\n"},
        {"from": "client", "end": True},
        {"from": "server", "end": True},
    )
    assert play(path, b"hello\n") == ("", b"world\n")
    different = "line 2 of the tape: expected b'hello\\n', got b'hallo\\n'"
    assert play(path, b"hallo\n") == (different, b"")
    ended = "line 2 of the tape: expected b'hello\\n', got b'hel'"
    assert play(path, b"hel") == (ended, b"")
    more = "line 4 of the tape: expected b'', got b'x'"
    assert play(path, b"hello\nxy") == (more, b"world\n")


def test_exact_play_needs_a_tape_over_stdio(path):
    write(path, {"from": "client", "exchange": 1, "head": "POST / HTTP/1.1"})
    with pytest.raises(ValueError, match="only a tape of a server over stdio"):
        play(path, b"")


# --- comparison of a server


async def test_replay_reports_a_missing_answer(path):
    write(path, client_line(call(1)), server_line(result(1)))
    server = ScriptedServer({"tools/call": lambda _: b"not JSON\n"})
    (difference,) = await replay(path, server, timeout=0.01)
    assert difference.path == ""
    assert difference.actual is None
    assert str(difference).startswith("tools/call (id 1): answer: expected {")
    assert str(difference).endswith("got null")


async def test_tape_without_answers_is_refused(path):
    write(path, client_line(call(1)))
    with pytest.raises(ValueError, match="the tape has no answers to compare"):
        await replay(path, ScriptedServer())


async def test_server_that_ends_early_gives_a_missing_answer_for_each_request(path):
    calls = [(client_line(call(id)), server_line(result(id))) for id in (1, 2, 3)]
    write(path, *(line for pair in calls for line in pair))
    server = scripted_command("answer(recv(), {'n': 1}); recv()")
    differences = await replay(path, server)
    assert [(each.request["id"], each.actual) for each in differences] == [
        (2, None),
        (3, None),
    ]


async def test_answers_after_the_end_of_the_client_are_compared(path):
    end = {"from": "client", "end": True}
    write(
        path,
        client_line(call(1, "listen")),
        end,
        server_line(result(1)),
        client_line(call(2, "listen")),
        end,
        server_line(result(2)),
    )
    server = scripted_command("""
        request = recv()
        sys.stdin.read()
        answer(request, {"n": 1})
    """)
    (difference,) = await replay(path, server)
    assert (difference.expected, difference.actual) == (2, 1)


async def test_replay_sends_the_values_that_the_present_server_made(path):
    write(
        path,
        client_line(call(1, method="tools/list")),
        server_line(result(1, {"tools": [], "nextCursor": "old"})),
        client_line(call(2, method="tools/list", cursor="old", also=["old", 1])),
        server_line(result(2, {"tools": [{"name": "a"}]})),
        {"from": "client", "text": "not JSON\n"},
        {"from": "server", "text": "not JSON\n"},
        server_line(note(data="not compared")),
    )
    server = ScriptedServer(
        {
            "tools/list": lambda message: (
                {"tools": [{"name": "b"}]}
                if "cursor" in message.params
                else {"tools": [], "nextCursor": "new"}
            )
        }
    )
    (difference,) = await replay(path, server)
    assert difference.path == "result.tools.0.name"
    last = server.requests("tools/list")[-1]
    assert (last["cursor"], last["also"]) == ("new", ["new", 1])
    assert server.received[-1].raw == b"not JSON"


async def test_replay_answers_the_requests_of_the_server(path):
    asked = {"jsonrpc": "2.0", "id": "old", "method": "roots/list"}
    write(
        path,
        client_line(call(1)),
        server_line(asked),
        client_line({"jsonrpc": "2.0", "id": "old", "result": {"roots": []}}),
        server_line(result(1, text("done"))),
    )
    server = ScriptedServer({"tools/call": lambda _: mcpwire.testing.SILENCE})
    replaying = asyncio.create_task(replay(path, server))
    request = await server.receive("tools/call")
    answer = await server.request("roots/list", id="new")
    assert answer.result == {"roots": []}
    request.answer(text("other"))
    (difference,) = await replaying
    assert difference.expected == "done"


async def test_answers_of_different_lengths_differ_by_their_items(path):
    write(path, client_line(call(1)), server_line(result(1, {"a": [1, 2], "_meta": 1})))
    server = ScriptedServer({"tools/call": {"a": [1], "b": "x" * 500, "_meta": 2}})
    texts = [str(each) for each in await replay(path, server)]
    assert texts[0] == "tools/call (id 1): result.a.1: expected 2, got null"
    assert texts[1].startswith('tools/call (id 1): result.b: expected null, got "xxx')
    assert texts[1].endswith("x...")

"""The C null server for stdio: exact answers with any chunking of input."""

import subprocess

import pytest

HELLO = b'"result":{"content":[{"type":"text","text":"hello"}]}}\n'
NOT_FOUND = b'"error":{"code":-32601,"message":"Method not found"}}\n'
SERVER_INFO = b'{"name":"null","version":"1"}'
STAMP = b'"_meta":{"io.modelcontextprotocol/serverInfo":' + SERVER_INFO + b"}"
TOOLS = (
    b'"tools":[{"name":"echo","description":"Return a fixed text","inputSchema":'
    b'{"type":"object","properties":{"text":{"type":"string"}}}}]'
)


@pytest.fixture(scope="module")
def null_server(null_program):
    return null_program("stdio_null")


@pytest.fixture
def ask(null_server):
    """Return a function that sends the input, closes stdin, and returns the output."""

    def send(sent, *options):
        done = subprocess.run(
            [null_server, *options],
            input=sent,
            capture_output=True,
            timeout=30,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, b"")
        return done.stdout

    return send


def answer(request_id, rest):
    return b'{"jsonrpc":"2.0","id":' + request_id + b"," + rest


@pytest.mark.parametrize(
    ("method", "rest"),
    [
        (b"tools/call", HELLO),
        (b"tools/list", b'"result":{' + TOOLS + b"}}\n"),
        (b"ping", b'"result":{}}\n'),
        (
            b"initialize",
            b'"result":{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},'
            b'"serverInfo":' + SERVER_INFO + b"}}\n",
        ),
        (b"server/discover", NOT_FOUND),
        (b"tools/cal", NOT_FOUND),
        (b"", NOT_FOUND),
    ],
)
def test_legacy_mode_answers_each_method_byte_for_byte(ask, method, rest):
    request = b'{"jsonrpc":"2.0","id":1,"method":"' + method + b'"}\n'
    assert ask(request) == ask(request, "--legacy") == answer(b"1", rest)


@pytest.mark.parametrize(
    ("method", "rest"),
    [
        (
            b"tools/call",
            b'"result":{"resultType":"complete",'
            b'"content":[{"type":"text","text":"hello"}],' + STAMP + b"}}\n",
        ),
        (
            b"tools/list",
            b'"result":{"resultType":"complete","ttlMs":0,"cacheScope":"public",'
            + TOOLS
            + b","
            + STAMP
            + b"}}\n",
        ),
        (
            b"server/discover",
            b'"result":{"resultType":"complete","supportedVersions":["2026-07-28"],'
            b'"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"public",'
            + STAMP
            + b"}}\n",
        ),
        (b"unknown", NOT_FOUND),
    ],
)
def test_modern_mode_answers_each_method_byte_for_byte(ask, method, rest):
    request = b'{"jsonrpc":"2.0","id":1,"method":"' + method + b'"}\n'
    assert ask(request, "--modern") == answer(b"1", rest)


@pytest.mark.parametrize(
    "request_id",
    [
        b"0",
        b"-3",
        b"9007199254740993",
        b'"7"',
        b'""',
        b'"a\\"b\\\\"',
        b'"\\u00e9}"',
        "\N{LINE SEPARATOR}é".encode().join([b'"', b'"']),
    ],
)
def test_id_is_echoed_byte_for_byte(ask, request_id):
    request = b'{"jsonrpc":"2.0","id":' + request_id + b',"method":"ping"}\n'
    assert ask(request) == answer(request_id, b'"result":{}}\n')


@pytest.mark.parametrize(
    "request_line",
    [
        b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"id":2,"method":"x"}}',
        b'{"jsonrpc":"2.0","method":"ping","params":{"id":2,"method":"x"},"id":1}',
        b'{"params":{"a":"}\\",\\"id\\":2"},"method":"ping","id":1}',
        b'{"x":-1.5e3,"y":null,"z":true,"id":1,"method":"ping"}',
        b' { "id" : 1 ,\t"method" : "ping" } \r',
        b'{"identity":2,"i":3,"id":1,"methods":"x","method":"ping"}',
    ],
)
def test_only_the_top_level_id_and_method_count(ask, request_line):
    assert ask(request_line + b"\n") == answer(b"1", b'"result":{}}\n')


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        (b'{"protocolVersion":"2024-11-05"}', b"2024-11-05"),
        (b'{"capabilities":{}, "protocolVersion" : "2025-06-18"}', b"2025-06-18"),
        (b'{"protocolVersion":"2026-07-28"}', b"2025-11-25"),
        (b"{}", b"2025-11-25"),
    ],
)
def test_initialize_negotiates_a_supported_revision(ask, params, expected):
    request = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":' + params + b"}"
    output = ask(request + b"\n")
    assert output.startswith(answer(b"1", b'"result":{"protocolVersion":"' + expected))


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"{}",
        b"noise",
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"id":1}}',
        b'{"jsonrpc":"2.0","id":1,"result":{}}',
        b'{"jsonrpc":"2.0","id":null,"method":"ping"}',
        b'{"jsonrpc":"2.0","id":1,"method":"ping',
    ],
)
def test_line_that_is_not_a_request_is_ignored(ask, line):
    request = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    assert ask(line + b"\n" + request) == answer(b"1", b'"result":{}}\n')


def test_an_unterminated_last_line_is_not_answered(ask):
    assert ask(b'{"jsonrpc":"2.0","id":1,"method":"ping"}') == b""


def test_a_request_larger_than_the_read_buffer_is_answered(ask):
    padding = b'"params":{"text":"' + b"x" * 3_000_000 + b'"}'
    request = b'{"jsonrpc":"2.0",' + padding + b',"method":"ping","id":1}\n'
    assert ask(request * 2) == answer(b"1", b'"result":{}}\n') * 2


def test_many_requests_in_one_write_are_answered_in_order(ask):
    requests = [
        b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{}}\n' % n
        for n in range(5000)
    ]
    answers = [answer(b"%d" % n, HELLO) for n in range(5000)]
    assert ask(b"".join(requests)) == b"".join(answers)


@pytest.mark.parametrize("size", [0, 1, 1000, 3_000_000])
def test_bytes_option_sets_the_size_of_the_text(ask, size):
    request = b'{"jsonrpc":"2.0","id":1,"method":"tools/call"}\n'
    text = b'"result":{"content":[{"type":"text","text":"' + b"x" * size + b'"}]}}\n'
    assert ask(request, "--bytes", str(size)) == answer(b"1", text)


@pytest.fixture
def child(null_server):
    with subprocess.Popen(
        [null_server], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
    ) as process:
        yield process
        process.kill()


def test_two_requests_in_one_write_are_answered_by_one_write(child):
    request = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{}}\n'
    expected = answer(b"1", HELLO) + answer(b"2", HELLO)
    child.stdin.write(request % 1 + request % 2)
    # One unbuffered read returns what one write put there.
    assert child.stdout.read(65536) == expected


def test_request_split_at_any_byte_is_answered(child):
    first = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    second = b'{"jsonrpc":"2.0","params":{"id":1},"id":"a\\"","method":"ping"}\n'
    for cut in range(1, len(second)):
        # A small write is atomic: with the first answer in hand, the server has read
        # exactly up to the cut.
        child.stdin.write(first + second[:cut])
        assert child.stdout.read(65536) == answer(b"1", b'"result":{}}\n')
        child.stdin.write(second[cut:])
        assert child.stdout.read(65536) == answer(b'"a\\""', b'"result":{}}\n')


def test_the_server_ends_with_its_input(child):
    child.stdin.close()
    assert child.wait(timeout=30) == 0

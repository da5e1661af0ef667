"""Errors: their text, attributes, class hierarchy and copies."""

import copy
import pickle
import traceback

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire import errors
from mcpwire.errors import (
    AuthError,
    CallCancelled,
    ConfigError,
    ConnectError,
    ConnectionClosed,
    GroupError,
    HTTPError,
    InvalidMessage,
    LocalProtocolError,
    MCPError,
    MessageTooLarge,
    NameCollision,
    NeedsConfirmation,
    NegotiationError,
    NotAllowed,
    NotConnected,
    ProtocolError,
    RemoteProtocolError,
    RequestTimeout,
    RPCError,
    SessionExpired,
    ToolError,
    TooManyQuestions,
    TransportError,
    UnknownServer,
    UnknownTool,
    excerpt,
    rpc_error,
    shorten,
)

CASES = [
    (MCPError("no luck"), "no luck", {}),
    (TransportError("gone", target="npx x"), "gone", {"target": "npx x"}),
    (
        ConnectError("cannot start 'nope'", target="nope", errno=2),
        "cannot start 'nope'",
        {
            "target": "nope",
            "errno": 2,
            "reason": None,
            "exit_code": None,
            "stderr_tail": "",
            "noise": (),
        },
    ),
    (
        ConnectError(
            "exited with code 1 before the handshake",
            exit_code=1,
            stderr_tail="Traceback\nImportError: no x\n",
            noise=["Installing...", "done"],
        ),
        (
            "exited with code 1 before the handshake; 2 line(s) of its output were "
            "not protocol messages, first: 'Installing...'; last line of stderr: "
            "'ImportError: no x'"
        ),
        {
            "exit_code": 1,
            "noise": ("Installing...", "done"),
            "stderr_tail": "Traceback\nImportError: no x\n",
        },
    ),
    (
        ConnectionClosed("the server was killed", exit_code=-9, sent=False),
        "the server was killed",
        {"exit_code": -9, "sent": False, "stderr_tail": "", "target": None},
    ),
    (
        ConnectionClosed("the server exited", stderr_tail=" \nout of memory \n\n"),
        "the server exited; last line of stderr: 'out of memory'",
        {"exit_code": None, "sent": True},
    ),
    (
        ConnectionClosed("the server exited", stderr_tail="a" * 9_000 + "the end"),
        f"the server exited; last line of stderr: '...{'a' * 193}the end'",
        {"stderr_tail": "a" * 9_000 + "the end"},
    ),
    (
        SessionExpired("the session is gone", target="https://x.example/mcp"),
        "the session is gone",
        {"target": "https://x.example/mcp"},
    ),
    (
        HTTPError("503 from a proxy", status=503, headers={"retry-after": "1"}),
        "503 from a proxy",
        {"status": 503, "headers": {"retry-after": "1"}, "body": b"", "target": None},
    ),
    (LocalProtocolError("not connected"), "not connected", {}),
    (RemoteProtocolError("odd answer"), "odd answer", {"hint": None}),
    (
        RemoteProtocolError("odd answer", hint="it sent the id as a string"),
        "odd answer (it sent the id as a string)",
        {"hint": "it sent the id as a string"},
    ),
    (
        InvalidMessage(
            "Tool.name", expected="str", got="int", raw=b"x" * 300, hint="a hint"
        ),
        "Tool.name: expected str, got int (a hint)",
        {
            "path": "Tool.name",
            "expected": "str",
            "got": "int",
            "raw": b"x" * 200,
            "hint": "a hint",
        },
    ),
    (
        MessageTooLarge("a line passed 64 bytes", limit=64),
        "a line passed 64 bytes",
        {"limit": 64, "hint": None},
    ),
    (
        RPCError("no such tool", code=-32602, data={"name": "x"}, method="tools/call"),
        "tools/call: no such tool (JSON-RPC error -32602)",
        {
            "code": -32602,
            "message": "no such tool",
            "data": {"name": "x"},
            "method": "tools/call",
        },
    ),
    (
        RPCError("", code=7),
        "no message (JSON-RPC error 7)",
        {"message": "", "data": None, "method": None},
    ),
    (
        errors.MethodNotFound("unknown"),
        "unknown (JSON-RPC error -32601)",
        {"code": -32601},
    ),
    (
        RequestTimeout(method="tools/call", timeout=30.0, elapsed=30.0123),
        "tools/call: no answer within 30 s (after 30 s)",
        {"method": "tools/call", "timeout": 30.0, "elapsed": 30.0123, "detail": None},
    ),
    (
        RequestTimeout(
            method="ping", timeout=0.5, elapsed=0.51, detail="2 noise lines"
        ),
        "ping: no answer within 0.5 s (after 0.51 s); 2 noise lines",
        {"detail": "2 noise lines"},
    ),
    (
        TooManyQuestions("tools/call", limit=100),
        (
            "tools/call: the server sent more than 100 requests during one call "
            "(Limits.questions) (raise Limits.questions if the call needs more)"
        ),
        {"method": "tools/call", "limit": 100},
    ),
    (
        CallCancelled("tools/call"),
        "tools/call: cancelled",
        {"method": "tools/call", "reason": None},
    ),
    (
        CallCancelled("tools/call", reason="user left"),
        "tools/call: cancelled: user left",
        {"reason": "user left"},
    ),
    (
        NegotiationError("no common revision"),
        "no common revision",
        {"negotiation": None, "supported": ()},
    ),
    (
        NegotiationError("none", negotiation=["probe"], supported=["2099-01-01"]),
        "none",
        {"negotiation": ["probe"], "supported": ("2099-01-01",)},
    ),
    (AuthError("401"), "401", {}),
    (GroupError("unknown server 'x'"), "unknown server 'x'", {}),
    (UnknownServer("x"), "no server named 'x'", {}),
    (UnknownServer("x", known=["a", "b"]), "no server named 'x' (known: 'a', 'b')", {}),
    (
        UnknownServer("x", known="abcdef"),
        "no server named 'x' (known: 'a', 'b', 'c', 'd', 'e', ...)",
        {},
    ),
    (
        NotConnected("x", known=["x"]),
        "the server 'x' is not connected",
        {"known": ("x",), "problem": None},
    ),
    (UnknownTool("t" * 101), f"no tool named '{'t' * 100}...'", {}),
    (UnknownTool("ad", close=["add"]), "no tool named 'ad' (did you mean: 'add')", {}),
    (NotAllowed("rm", rule="deny: rm"), "the tool 'rm' is not allowed (deny: rm)", {}),
    (NeedsConfirmation("rm"), "the tool 'rm' needs confirmation", {}),
    (
        NameCollision("add", owners=[("a", "add"), ("b", "add")]),
        "the name 'add' would belong to 'add' of 'a', 'add' of 'b'",
        {},
    ),
    (ConfigError("is empty"), "is empty", {}),
    (
        ConfigError("TOKEN is not set", file="a.toml", entry="time", field="env.KEY"),
        "a.toml: time: env.KEY: TOKEN is not set",
        {},
    ),
    (ToolError("it failed"), "it failed", {"result": None}),
]


def ids(case):
    return type(case).__name__ if isinstance(case, MCPError) else ""


@pytest.mark.system("R05")
@pytest.mark.parametrize(("error", "text", "attributes"), CASES, ids=ids)
def test_each_error_has_its_text_and_its_attributes(error, text, attributes):
    assert str(error) == text
    assert {name: getattr(error, name) for name in attributes} == attributes


@pytest.mark.parametrize(("error", "text", "attributes"), CASES, ids=ids)
@pytest.mark.parametrize(
    "clone",
    [copy.copy, copy.deepcopy, lambda error: pickle.loads(pickle.dumps(error))],
    ids=["copy", "deepcopy", "pickle"],
)
def test_each_error_survives_copying_and_pickling(clone, error, text, attributes):
    cloned = clone(error)
    assert type(cloned) is type(error)
    assert str(cloned) == text
    assert cloned.args == error.args
    assert vars(cloned) == vars(error)


@given(st.text(max_size=30), st.integers(1, 20))
def test_long_peer_text_is_cut_with_the_number_of_missing_characters(text, limit):
    shown = shorten(text, limit)
    if len(text) <= limit:
        assert shown == text
    else:
        assert shown == f"{text[:limit]}... ({len(text) - limit} characters more)"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "'a'"),
        ("", "''"),
        ("a" * 40, repr("a" * 40)),
        ("a" * 41, repr("a" * 40 + "…")),
        ("\n", "'\\n'"),
        (None, "None"),
        (True, "True"),
        (1.5, "1.5"),
        (10**50, "a huge int"),
        ([1], "a value of type list"),
        (b"a", "a value of type bytes"),
    ],
)
def test_excerpt_of_any_value_is_short(value, text):
    assert excerpt(value) == text


@pytest.mark.attack("X12")
@pytest.mark.parametrize("clone", [lambda error: error, copy.copy], ids=["it", "copy"])
def test_peer_message_is_cut_in_the_text_and_complete_in_its_attribute(clone):
    huge = "x" * 5_000_000
    error = clone(rpc_error(-32603, huge, method="tools/call"))
    assert str(error) == (
        f"tools/call: {'x' * 2_000}... (4,998,000 characters more) "
        "(JSON-RPC error -32603)"
    )
    assert len(repr(error)) < 3_000
    assert len("".join(traceback.format_exception(error))) < 3_000
    assert error.message == huge


def test_a_note_attached_to_an_error_stays_with_its_copies():
    error = ToolError("it failed")
    error.add_note("while testing")
    assert copy.copy(error).__notes__ == ["while testing"]


def test_needs_confirmation_keeps_a_copy_of_the_arguments():
    arguments = {"path": "/"}
    error = NeedsConfirmation("rm", arguments=arguments)
    arguments["path"] = "/tmp"
    assert error.arguments == {"path": "/"}


def all_errors(cls=MCPError):
    yield cls
    for sub in cls.__subclasses__():
        yield from all_errors(sub)


def test_each_class_that_can_be_raised_is_in_a_table_above():
    shown = {type(error) for error, _, _ in CASES} | set(CODES.values())
    named = {getattr(errors, name) for name in errors.__all__} - {rpc_error}
    assert named - shown == {ProtocolError}


def test_module_exports_all_its_errors():
    defined = {cls for cls in all_errors() if cls.__module__ == errors.__name__}
    assert {cls.__name__ for cls in defined} | {"rpc_error"} == set(errors.__all__)
    assert errors.__all__ == sorted(errors.__all__)


TREE = {
    TransportError: MCPError,
    ConnectError: TransportError,
    ConnectionClosed: TransportError,
    SessionExpired: TransportError,
    HTTPError: TransportError,
    LocalProtocolError: ProtocolError,
    RemoteProtocolError: ProtocolError,
    InvalidMessage: RemoteProtocolError,
    MessageTooLarge: RemoteProtocolError,
    TooManyQuestions: RemoteProtocolError,
    RPCError: MCPError,
    RequestTimeout: TimeoutError,
    CallCancelled: MCPError,
    NegotiationError: MCPError,
    AuthError: MCPError,
    GroupError: MCPError,
    ToolError: MCPError,
}


@pytest.mark.parametrize(("cls", "parent"), TREE.items())
def test_each_error_has_its_parent_class(cls, parent):
    assert issubclass(cls, parent)
    assert issubclass(cls, MCPError)


@pytest.mark.parametrize(
    "cls", [cls for cls in all_errors() if not issubclass(cls, RPCError)]
)
@pytest.mark.rule("RPC-30")
def test_local_error_has_no_json_rpc_code(cls):
    assert not hasattr(cls, "code")
    assert not hasattr(cls, "default_code")


def test_protocol_error_itself_cannot_be_raised():
    with pytest.raises(
        TypeError, match="raise LocalProtocolError or RemoteProtocolError"
    ):
        ProtocolError("somebody erred")


def test_an_error_of_the_peer_needs_a_code():
    with pytest.raises(TypeError, match="needs a code"):
        RPCError("no code")


CODES = {
    -32700: errors.ParseError,
    -32600: errors.InvalidRequest,
    -32601: errors.MethodNotFound,
    -32602: errors.InvalidParams,
    -32603: errors.InternalError,
    -32002: errors.ResourceNotFound,
    -32020: errors.HeaderMismatch,
    -32021: errors.MissingCapability,
    -32022: errors.UnsupportedVersion,
    -32042: errors.UrlElicitationRequired,
}


@pytest.mark.parametrize(("code", "cls"), CODES.items())
@pytest.mark.rule("RPC-28", "RES-07")
def test_protocol_defined_code_has_its_class(code, cls):
    error = rpc_error(code, "because", data=[1], method="m")
    assert type(error) is cls
    assert (error.code, error.message, error.data, error.method) == (
        code,
        "because",
        [1],
        "m",
    )
    assert cls("because").code == code


@pytest.mark.parametrize("code", [0, 1, -1, -31999, 2**40])
def test_unknown_code_is_a_plain_rpc_error(code):
    error = rpc_error(code, "because")
    assert type(error) is RPCError
    assert error.code == code


@pytest.mark.parametrize(
    "code", [code for code in range(-32099, -31999) if code not in CODES]
)
@pytest.mark.rule("RPC-25")
def test_reserved_code_without_meaning_is_a_plain_rpc_error(code):
    assert type(rpc_error(code, "because")) is RPCError


def test_each_code_class_is_in_the_table():
    own = {c for c in RPCError.__subclasses__() if c.__module__.startswith("mcpwire.")}
    assert set(CODES.values()) == own


def test_a_subclass_may_keep_another_code_that_the_peer_sent():
    assert errors.InvalidParams("x", code=-32000).code == -32000


@pytest.mark.system("A04")
def test_request_timeout_is_a_builtin_timeout_error():
    with pytest.raises(TimeoutError):
        raise RequestTimeout(method="ping", timeout=1, elapsed=1)


GROUP = """\
  + Exception Group Traceback (most recent call last):
  |   File "server.py", line 3, in <module>
  |     raise ExceptionGroup("unhandled errors", [KeyError("TOKEN")])
  | ExceptionGroup: unhandled errors (1 sub-exception)
  +-+---------------- 1 ----------------
    | Traceback (most recent call last):
    |   File "server.py", line 2, in main
    | KeyError: 'TOKEN'
    +------------------------------------
"""

NODE = """node:events:502
      throw er; // Unhandled 'error' event

TypeError: fetch failed
    at async start (file:///server.mjs:19:13) {
  [cause]: Error: getaddrinfo ENOTFOUND example.com
      at async lookup (node:dns:122:17)
}

Node.js v20.20.2
"""
RUST = """thread 'main' panicked at src/main.rs:2:5:
no home folder
note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace
"""
GO = """panic: no podman

goroutine 1 [running]:
main.main()
\t/src/main.go:6 +0x1b
"""


@pytest.mark.parametrize(
    ("tail", "quoted"),
    [
        (GROUP, "KeyError: 'TOKEN'"),
        (f"{GROUP}\nserver ended\n", "server ended"),
        ("ValueError: x\n    ^^^^^^\n", "ValueError: x"),
        (NODE, "[cause]: Error: getaddrinfo ENOTFOUND example.com"),
        ("Error: no\n\nCaused by:\n    1: refused\n", "1: refused"),
        ("invalid:\n  - API_KEY is missing\n", "- API_KEY is missing"),
        (f"{GO}fatal: database gone\n", "fatal: database gone"),
        (RUST, "no home folder"),
        (GO, "panic: no podman"),
        ("  in: here\n", "in: here"),
        ("----\n====\n", "===="),
        ("137\n", "137"),
    ],
)
def test_last_meaningful_stderr_line_is_quoted(tail, quoted):
    error = ConnectionClosed("the server exited", stderr_tail=tail)
    assert str(error) == f"the server exited; last line of stderr: {quoted!r}"

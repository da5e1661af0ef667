"""Each failure has an exit code, a one-line message and a JSON object."""

import json

import pytest

import mcpwire
from mcpwire.cli.failures import (
    Exit,
    Interrupted,
    OutputError,
    UsageError,
    close_matches,
    did_you_mean,
    error_document,
    exit_code,
    sentence,
)
from mcpwire.errors import rpc_error


def caused(error, cause):
    error.__cause__ = cause
    return error


def refused(status, **headers):
    return mcpwire.HTTPError("x", status=status, headers=headers)


def with_status(error, status):
    error.status = status
    return error


CHALLENGE = {"www-authenticate": "Bearer"}
BROKEN = mcpwire.InvalidMessage("x", expected="str", got="int")

CODES = [
    (UsageError("x"), 2),
    (mcpwire.LocalProtocolError("x"), 2),
    (mcpwire.AuthError("x"), 3),
    (mcpwire.ConnectError("x"), 4),
    (mcpwire.ConnectionClosed("x"), 4),
    (mcpwire.HTTPError("x", status=500), 4),
    (mcpwire.HTTPError("x", status=404), 4),
    (mcpwire.SessionExpired("x"), 4),
    (refused(401), 3),
    (refused(401, **CHALLENGE), 3),
    (refused(403, **CHALLENGE), 3),
    (refused(403), 4),
    (with_status(rpc_error(-32600, "x"), 401), 3),
    (with_status(rpc_error(-32600, "x"), 403), 8),
    (caused(mcpwire.NegotiationError("x"), refused(401)), 3),
    (mcpwire.NegotiationError("x"), 4),
    (caused(mcpwire.NegotiationError("x"), rpc_error(-32601, "x")), 4),
    (caused(mcpwire.NegotiationError("x"), BROKEN), 6),
    (caused(mcpwire.ConnectError("x"), OSError()), 4),
    (caused(mcpwire.ConnectError("x"), caused(OSError(), BROKEN)), 6),
    (mcpwire.ToolError("x"), 5),
    (BROKEN, 6),
    (mcpwire.MessageTooLarge("x", limit=1), 6),
    (mcpwire.RequestTimeout(method="x", timeout=1, elapsed=1), 7),
    (rpc_error(-32602, "x"), 8),
    (rpc_error(-1, "x"), 8),
    (KeyboardInterrupt(), 130),
    (Interrupted(2), 130),
    (Interrupted(15), 143),
    (OutputError("x"), 1),
    (mcpwire.MCPError("x"), 1),
    (KeyError("x"), 1),
]


@pytest.mark.parametrize(("error", "code"), CODES)
def test_each_error_has_an_exit_code_and_a_json_object(error, code):
    assert exit_code(error) == code
    found = json.loads(json.dumps(error_document(error)))
    assert found["type"] == type(error).__name__
    assert found["exit"] == code
    assert found["message"]


def test_exit_codes_have_the_documented_values():
    assert {code.name: int(code) for code in Exit} == {
        "OK": 0,
        "INTERNAL": 1,
        "USAGE": 2,
        "AUTHORIZATION": 3,
        "CONNECT": 4,
        "TOOL": 5,
        "PROTOCOL": 6,
        "TIMEOUT": 7,
        "RPC": 8,
        "WORSE": 9,
        "INTERRUPTED": 130,
        "BROKEN_PIPE": 141,
    }


def noted(error, note):
    error.add_note(note)
    return error


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (UsageError("no such thing"), "no such thing"),
        (mcpwire.LocalProtocolError("no 'x'; `client.request` does"), "no 'x'"),
        (
            mcpwire.RequestTimeout(method="ping", timeout=1, elapsed=1),
            (
                "ping: no answer within 1 s (after 1 s); to change the limit: "
                "--timeout SECONDS"
            ),
        ),
        (noted(mcpwire.ConnectError("gone"), "is it there?"), "gone; is it there?"),
        (KeyError("x"), "internal error: KeyError: 'x'; -v shows the traceback"),
        (ValueError(), "internal error: ValueError; -v shows the traceback"),
        (KeyboardInterrupt(), "interrupted"),
        (Interrupted(2), "interrupted"),
        (OutputError("cannot write"), "cannot write"),
        (mcpwire.MCPError("ours"), "ours"),
    ],
)
def test_each_error_has_a_one_line_message(error, text):
    assert sentence(error) == text


def test_json_details_contain_the_attributes_of_the_error():
    error = mcpwire.ConnectError(
        "gone", target="x", exit_code=3, stderr_tail="boom", noise=["hi"]
    )
    assert error_document(error)["details"] == {
        "target": "x",
        "exit_code": 3,
        "stderr_tail": "boom",
        "noise": ["hi"],
    }
    error = mcpwire.HTTPError(
        "no", status=503, headers={"retry-after": "5", "set-cookie": "a=b"}, body=b"no"
    )
    assert error_document(error)["details"] == {
        "status": 503,
        "headers": {"retry-after": "5", "set-cookie": "***"},
        "body": "no",
    }
    error = rpc_error(-32602, "no", data={"a": (1, None)}, method="x")
    assert error_document(error)["details"] == {
        "code": -32602,
        "data": {"a": [1, None]},
        "method": "x",
    }
    error = UsageError("x", suggestions=["y"])
    assert error_document(error)["details"] == {"suggestions": ["y"]}
    assert "details" not in error_document(UsageError("x"))
    assert "details" not in error_document(KeyError("x"))


def test_values_that_are_not_json_become_text():
    error = mcpwire.InvalidMessage("x", expected="y", got="z", raw=b"\xff{")
    assert error_document(error)["details"]["raw"] == "\\xff{"
    result = mcpwire.types.CallToolResult(raw={"isError": True})
    error = mcpwire.ToolError("x", result=result)
    assert error_document(error)["details"]["result"] == {"isError": True}
    error = mcpwire.NegotiationError("x", negotiation=mcpwire.Negotiation())
    assert error_document(error)["details"]["negotiation"] == "no agreement"


@pytest.mark.parametrize(
    ("name", "matches"),
    [("get_sun", ["get-sum", "get_env"]), ("SUM", ["get-sum"]), ("zzz", [])],
)
def test_close_names_are_found(name, matches):
    assert close_matches(name, ["get-sum", "get_env", "other"]) == matches


def test_suggestions_are_phrased_as_a_question():
    assert did_you_mean([]) == ""
    assert did_you_mean(["a"]) == "; did you mean 'a'?"
    assert did_you_mean(["a", "b"]) == "; did you mean 'a' or 'b'?"

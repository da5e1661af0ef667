"""Faults in the header fields of 2026-07-28."""

import json

from mutants import Mutant, mutant, register
from mutants_http import MODERN, body_of, given, is_modern_only

KEPT = {"tools/call": {"resultType": "complete", "content": []}}
"""Method -> the last result."""


def keep(held):
    try:
        found = json.loads(held["body"])
    except ValueError:
        return
    method = body_of(held).get("method")
    if isinstance(found, dict) and "result" in found and method != "initialize":
        KEPT[method] = found["result"]


def serve(held):
    """Replace a refusal by a result."""
    message = body_of(held)
    if held["status"] == 400 and message.get("method") in KEPT:
        found = {
            "jsonrpc": "2.0",
            "id": message.get("id"),
            "result": KEPT[message["method"]],
        }
        held["status"], held["body"] = 200, json.dumps(found).encode()


def mismatch(held):
    """Replace a result by a refusal."""
    if held["status"] == 200:
        error = {"code": -32020, "message": "mismatch"}
        found = {"jsonrpc": "2.0", "id": body_of(held).get("id"), "error": error}
        held["status"], held["body"] = 400, json.dumps(found).encode()
        held["headers"]["content-type"] = "application/json"


def fault(name, *cases, when, change=serve, more=()):
    """Register a fault in the requests that meet a condition."""

    def response(held):
        keep(held)
        is_modern = "_meta" in (body_of(held).get("params") or {})
        if (is_modern or given(held, "mcp-protocol-version")) and when(held):
            change(held)
        for each in more:
            each(held)

    register(Mutant(name, cases, transport="http", revision=MODERN, response=response))


def method(held):
    return body_of(held).get("method")


def name_of(held):
    params = body_of(held).get("params") or {}
    return params.get("name") or params.get("uri")


def lacks(field):
    return lambda held: given(held, field) is None


def is_given(field, value):
    return lambda held: given(held, field) == value


def contains(field, text):
    return lambda held: text in (given(held, field) or "")


def is_repeated(field):
    return lambda held: held["request"]["names"].count(field) > 1


fault("Mcp-Method is not needed", "HDR-22.a", when=lacks("mcp-method"))
fault(
    "Mcp-Name is not needed",
    "HDR-22.b",
    when=lambda held: given(held, "mcp-name") is None and name_of(held),
)
fault(
    "Mcp-Method is not compared",
    "HDR-21.a",
    "TR-HTTP-32.a",
    "D13.a",
    when=lambda held: (
        given(held, "mcp-method") in {"tools/list", "tools/call"}
        and given(held, "mcp-method") != method(held)
    ),
)
fault(
    "Mcp-Name is not compared",
    "HDR-21.b",
    "D13.b",
    when=is_given("mcp-name", "mcpwire-other"),
)
fault(
    "Mcp-Method is compared without its case",
    "HDR-27.a",
    "TR-HTTP-28.a",
    when=lambda held: (
        (given(held, "mcp-method") or "").isupper()
        and given(held, "mcp-method").lower() == method(held)
    ),
)


def base64(held):
    return (given(held, "mcp-name") or "").startswith("=?base64?")


fault(
    "a name in Base64 is not compared",
    "HDR-20.b",
    when=contains("mcp-name", "bWNwd2lyZS1vdGhlcg"),
)
fault(
    "the markers of Base64 count in any case",
    "HDR-20.c",
    when=contains("mcp-name", "BASE64"),
)
fault("broken Base64 is no name", "HDR-23.a", when=contains("mcp-name", "%%%"))
fault(
    "Base64 that is no text is no name", "HDR-23.b", when=contains("mcp-name", "/w==")
)
fault(
    "octets beyond ASCII are no name",
    "HDR-23.c",
    when=lambda held: not (given(held, "mcp-name") or "").isascii(),
)
fault("the first of two methods counts", "D13.a", when=is_repeated("mcp-method"))
fault("the last of two names counts", "D13.b", when=is_repeated("mcp-name"))
fault(
    "a name in Base64 is not decoded",
    "HDR-20.a",
    "HDR-20.b",
    when=lambda held: base64(held) and given(held, "mcp-method") == method(held),
    change=mismatch,
)
for name, case, old, new in (
    ("names of fields count as written", "HDR-27.b", b"MCP-METHOD:", b"X-Method:"),
    ("spaces around a value count", "HDR-28.a", b" \t\r\n", b"_\r\n"),
):
    register(
        Mutant(
            name,
            (case,),
            transport="http",
            revision=MODERN,
            octets=lambda data, old=old, new=new: data.replace(old, new),
        )
    )


def served_without_version(held):
    if given(held, "mcp-protocol-version") is None:
        serve(held)


fault(
    "the header of the version is not needed",
    "HDR-22.c",
    "TR-HTTP-28.a",
    when=served_without_version,
    more=(is_modern_only,),
)


def version_in_body(held):
    meta = (body_of(held).get("params") or {}).get("_meta") or {}
    return meta.get("io.modelcontextprotocol/protocolVersion")


fault(
    "the version in the body is not compared",
    "TR-HTTP-26.a",
    when=lambda held: version_in_body(held) == "2025-11-25",
)
fault(
    "the version in the header is not compared",
    "TR-HTTP-26.b",
    when=lambda held: (
        given(held, "mcp-protocol-version") == "2025-11-25"
        and version_in_body(held) == MODERN
    ),
)


def drops_error_data(held):
    found = json.loads(held["body"])
    found["error"].pop("data", None)
    held["body"] = json.dumps(found).encode()


fault(
    "an unknown version is refused without the known ones",
    "TR-HTTP-27.a",
    "VER-02.a",
    "VER-02.b",
    "VER-07.a",
    when=lambda held: b"-32022" in held["body"],
    change=drops_error_data,
)


def loses_id(held):
    found = json.loads(held["body"])
    found.pop("id", None)
    held["body"] = json.dumps(found).encode()


fault(
    "errors of header fields have no id",
    "TR-HTTP-32.a",
    "B08.a",
    when=lambda held: b"-32020" in held["body"],
    change=loses_id,
)


# --- arguments


def is_call(held):
    return given(held, "mcp-name") == "forecast"


fault(
    "header fields of arguments are not needed",
    "HDR-24.a",
    when=lambda held: is_call(held) and given(held, "mcp-param-city") is None,
)
fault(
    "texts are not compared with their header fields",
    "HDR-21.c",
    when=lambda held: (given(held, "mcp-param-city") or "").endswith("-other"),
)
fault(
    "numbers are not compared with their header fields",
    "HDR-21.d",
    when=is_given("mcp-param-days", "2"),
)
fault(
    "truths are not compared with their header fields",
    "HDR-21.e",
    when=is_given("mcp-param-exact", "true"),
)
fault(
    "broken Base64 is no argument", "HDR-23.d", when=contains("mcp-param-city", "%%%")
)
fault(
    "an argument in Base64 is not decoded",
    "HDR-20.d",
    when=contains("mcp-param-city", "=?base64"),
    change=mismatch,
)
fault(
    "numbers are compared as texts",
    "HDR-26.a",
    when=is_given("mcp-param-days", "1.0"),
    change=mismatch,
)
fault(
    "header fields are expected for arguments that are not there",
    "HDR-25.a",
    "HDR-20.d",
    when=lambda held: is_call(held) and given(held, "mcp-param-days") is None,
    change=mismatch,
)


@mutant("a header is asked for a number", "HDR-07.a", revision=MODERN)
def on_number(message, _):
    for tool in message.get("result", {}).get("tools", ()):
        days = tool["inputSchema"].get("properties", {}).get("days")
        if days is not None:
            days["type"] = "number"
    return message

"""Faults in handshake, discovery, ping, cancellation, progress and logging."""

import json

from mutants import Mutant, http_mutant, mutant, register
from mutants_jsonrpc import error, fault, get, meta, result

NEW = "2026-07-28"
PREFIX = "io.modelcontextprotocol/"
VERSION, CAPABILITIES = PREFIX + "protocolVersion", PREFIX + "clientCapabilities"
LOG_LEVEL = PREFIX + "logLevel"


def params(message):
    """Return the params of a message."""
    found = get(message, "params")
    return found if isinstance(found, dict) else {}


def is_hello(message):
    """Return whether a message is an `initialize` of a session."""
    return get(message, "method") == "initialize" and VERSION not in meta(message)


def hello(version="2025-11-25"):
    """Return the members of a result of `initialize`."""
    info = {"name": "s", "version": "1"}
    return {"protocolVersion": version, "capabilities": {}, "serverInfo": info}


def complete(id, **members):
    """Return a result in the form of the stateless revision."""
    about = {PREFIX + "serverInfo": {"name": "s", "version": "1"}}
    shared = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
    return result(id, _meta=about, **shared, **members)


def discovered(id):
    """Return a result of `server/discover`."""
    return complete(id, supportedVersions=[NEW], capabilities={})


# --- the handshake


@mutant("the handshake lacks the server's name", "LIFE-03.a", "SCHEMA.InitializeResult")
def nameless(message, state):
    if state.method_of(message) == "initialize":
        message.get("result", {}).pop("serverInfo", None)
    return message


fault("a list that is declared is not there", "LIFE-03.b", "RPC-07.e", "F05.h",
      "PAGE-06.d",
      when=lambda m: get(m, "method") == "prompts/list",
      then=lambda m: error(m["id"], -32601))  # fmt: skip
fault("any version is echoed", "LIFE-08.a",
      when=lambda m: is_hello(m) and params(m).get("protocolVersion") == "2099-01-01",
      then=lambda m: result(m["id"], **hello("2099-01-01")))  # fmt: skip
fault("the stateless revision is agreed on", "C02.a",
      when=lambda m: is_hello(m) and params(m).get("protocolVersion") == NEW,
      then=lambda m: result(m["id"], **hello(NEW)))  # fmt: skip
fault("a handshake without a client's name is taken", "C02.b",
      when=lambda m: is_hello(m) and params(m) and "clientInfo" not in params(m),
      then=lambda m: result(m["id"], **hello()))  # fmt: skip
fault("unknown capabilities are refused", "C02.d",
      when=lambda m: is_hello(m) and "experimental" in params(m)["capabilities"],
      then=lambda m: error(m["id"], -32602))  # fmt: skip

REFUSED = []


@http_mutant("a refused handshake spoils the next", "C02.c")
def spoilt(message, _):
    if not is_hello(message):
        return None
    if not params(message):
        REFUSED.append(1)
        return None
    was_refused = bool(REFUSED)
    REFUSED.clear()
    return error(message["id"], -32603) if was_refused else None


@http_mutant("a list is given before the handshake", "C01.a")
def early(message, held):
    has_session = "mcp-session-id" in held["request"]["headers"]
    if get(message, "method") == "tools/list" and not has_session and not meta(message):
        return result(message["id"], tools=[])
    return None


def _lost_ping(message, state):
    if get(message, "method") == "initialize":
        state.kept["begun"] = True
    is_early = get(message, "method") == "ping" and "begun" not in state.kept
    return None if is_early else message


register(Mutant("a ping before the handshake gets no answer", ("C01.b",),
           from_client=_lost_ping))  # fmt: skip


@http_mutant("a second handshake goes on in the session", "C01.c")
def again(message, held):
    session = held["request"]["headers"].get("mcp-session-id")
    if is_hello(message) and session:
        held["headers"]["mcp-session-id"] = session
        return result(message["id"], **hello(params(message)["protocolVersion"]))
    return None


READY = set()


@http_mutant("a ping before `initialized` is refused", "C01.d")
def unready(message, held):
    session = held["request"]["headers"].get("mcp-session-id")
    if get(message, "method") == "notifications/initialized":
        READY.add(session)
    is_ping = get(message, "method") == "ping" and held["status"] == 200
    if is_ping and session not in READY:
        return error(message["id"], -32600)
    return None


SEEN = set()


@http_mutant("a second `initialized` is answered", "C01.e")
def twice(message, held):
    session = held["request"]["headers"].get("mcp-session-id")
    if get(message, "method") != "notifications/initialized":
        return None
    is_second = session in SEEN
    SEEN.add(session)
    return result(None) if is_second else None


@mutant("the roots are asked for at once", "LIFE-06.a")
def hasty(message, state):
    able = state.params_of(message).get("capabilities", {})
    if state.method_of(message) == "initialize" and "roots" in able:
        return [message, {"jsonrpc": "2.0", "id": "r", "method": "roots/list"}]
    return message


# --- discovery


@mutant("discovery gives no capabilities", "VER-04.a", "SCHEMA.DiscoverResult",
        "LOG-01.a", "COMP-03.a", "D18.c", "PROMPT-01.a", "RES-01.a", "TOOL-01.a",
        revision=NEW)  # fmt: skip
def no_capabilities(message, state):
    if state.method_of(message) == "server/discover" and "result" in message:
        message["result"]["capabilities"] = []
    return message


def in_discovery(name, *cases, **changed):
    """Register a change of the result of `server/discover`."""

    @mutant(name, *cases, revision=NEW)
    def change(message, state):
        if state.method_of(message) == "server/discover" and "result" in message:
            message["result"].update(changed)
        return message


in_discovery("discovery holds for less than no time", "VER-05.a",
             "SCHEMA.DiscoverResult", "CACHE-03.a", ttlMs=-1)  # fmt: skip


@mutant("an extension has no prefix", "EXT-01.a", revision=NEW)
def no_prefix(message, state):
    if state.method_of(message) == "server/discover" and "result" in message:
        message["result"]["capabilities"].setdefault("extensions", {})["mine"] = {}
    return message


def in_error(name, *cases, **changed):
    """Register a change of the data of an error -32022."""

    @mutant(name, *cases, revision=NEW)
    def change(message, state):
        broken = message.get("error", {})
        if broken.get("code") == -32022:
            broken["data"].update(changed)
        return message


in_error("the versions in the error are old", "VER-02.a", "VER-07.a",
         supported=["2025-11-25"])  # fmt: skip
in_error("the error names another version", "VER-02.b", requested=NEW)
in_error("the error has a version more", "VER-07.a", supported=[NEW, "2027-01-01"])

fault("an unknown version is served", "VER-02.c", revision=NEW,
      when=lambda m: get(m, "method") == "tools/list"
      and meta(m).get(VERSION) == "1900-01-01",
      then=lambda m: complete(m["id"], tools=[]))  # fmt: skip
fault("a version that is a number is served", "VER-02.d", revision=NEW,
      when=lambda m: meta(m).get(VERSION) == 20260728,
      then=lambda m: discovered(m["id"]))  # fmt: skip


@mutant("the handshake is refused without a word", "VER-09.a", "TX-18.b", revision=NEW)
def modern_alone(message, state):
    if state.method_of(message) == "server/discover" and "result" in message:
        message["result"]["supportedVersions"] = [NEW]
    if state.method_of(message) == "initialize":
        return error(message["id"], -32601)
    return message


@mutant("the handshake is refused although it is listed", "VER-10.a", revision=NEW)
def no_handshake(message, state):
    if state.method_of(message) == "initialize" and "result" in message:
        return error(message["id"], -32600)
    return message


def removed(method, letter):
    """Register a server that still has a removed method."""

    @mutant(f"{method} is still there", f"VER-10.{letter}", revision=NEW)
    def change(message, state):
        is_it = state.method_of(message) == method
        return complete(message["id"]) if is_it else message


for letter, method in zip(
    "bcdef",
    ("initialize", "ping", "logging/setLevel", "resources/subscribe",
     "resources/unsubscribe"),
    strict=True,
):  # fmt: skip
    removed(method, letter)


def unmarked(name, *cases, when, **facts):
    """Register a server that serves a request without its required metadata."""
    fault(name, *cases, when=when, revision=NEW, **facts,
          then=lambda m: discovered(m["id"]))  # fmt: skip


def is_call(message):
    """Return whether a message is a request."""
    return isinstance(message, dict) and "method" in message and "id" in message


unmarked("capabilities may be left out", "META-08.a", "META-14.b",
         when=lambda m: VERSION in meta(m) and CAPABILITIES not in meta(m))  # fmt: skip
unmarked("the version may be left out", "META-08.b",
         when=lambda m: CAPABILITIES in meta(m) and VERSION not in meta(m))  # fmt: skip
unmarked("the metadata may be left out", "META-08.c",
         when=lambda m: get(m, "method") == "server/discover" and is_call(m)
         and get(m, "params") in (None, {}) and get(m, "jsonrpc") == "2.0"
         and type(m["id"]) is int)  # fmt: skip
unmarked("capabilities may be a text", "META-08.e",
         when=lambda m: meta(m).get(CAPABILITIES) == "all")  # fmt: skip
fault("a client must say its name", "META-07.a", revision=NEW,
      when=lambda m: CAPABILITIES in meta(m) and VERSION in meta(m)
      and PREFIX + "clientInfo" not in meta(m),
      then=lambda m: error(m["id"], -32602))  # fmt: skip
fault("unknown metadata is refused", "META-04.a", "F13.f", revision=NEW,
      when=lambda m: "com.example/mcpwire" in meta(m),
      then=lambda m: error(m["id"], -32602))  # fmt: skip
fault("malformed trace keys are a fault of the server", "META-04.b", revision=NEW,
      when=lambda m: meta(m).get("traceparent") == "x", then=lambda m: 500)  # fmt: skip


def _marked(message, _):
    has_none = get(message, "params") in (None, {}) or meta(message)
    if "id" in message and "method" in message and has_none:
        message["params"] = {"_meta": {}, **params(message)}
        found = message["params"]["_meta"]
        found.setdefault(VERSION, NEW)
        found.setdefault(CAPABILITIES, {})
    return message


register(Mutant("metadata is made up",
                ("META-08.d", "META-08.a", "META-14.b", "MRTR-18.a"),
                from_client=_marked, revision=NEW))  # fmt: skip


@mutant("the first request must be discovery", "META-14.a", revision=NEW)
def discovery_first(message, state):
    method = state.method_of(message)
    if not state.kept.get("found") and method and method.endswith("/list"):
        return error(message["id"], -32600)
    state.kept["found"] = True
    return message


LAST = {}


@http_mutant("a refused request spoils the next", "META-14.b", revision=NEW)
def spoils(message, _):
    was = LAST.pop("version", None)
    LAST["version"] = meta(message).get(VERSION)
    if was == "1900-01-01" and LAST["version"] == NEW:
        LAST.clear()
        return error(message["id"], -32603)
    return None


@mutant("a result has no type", "RPC-16.a", "SCHEMA.ListToolsResult", revision=NEW)
def untyped(message, state):
    if state.method_of(message) == "tools/list":
        message.get("result", {}).pop("resultType", None)
    return message


@mutant("the server asks by requests", "RPC-20.a", revision=NEW)
def asks(message, state):
    if state.method_of(message) == "tools/list":
        return [message, {"jsonrpc": "2.0", "id": "s", "method": "roots/list"}]
    return message


def with_code(name, *cases, code):
    """Register another code of an error for unknown methods."""

    @mutant(name, *cases, revision=NEW)
    def change(message, state):
        broken = message.get("error", {})
        if broken.get("code") == -32601:
            broken["code"] = code
        return message


REMOVED = (*(f"VER-10.{letter}" for letter in "bcdef"), "TX-21.a")
with_code("a code of a former revision is used", "RPC-27.a", "RPC-31.a", "B08.a",
          *REMOVED, code=-32002)  # fmt: skip
with_code("a reserved code is used", "RPC-26.a", "RPC-31.a", "B08.a", *REMOVED,
          code=-32050)  # fmt: skip
with_code("a legacy code is used", "RPC-24.a", "RPC-31.a", "B08.a", *REMOVED,
          code=-32001)  # fmt: skip


# --- ping


@http_mutant("a ping is answered with a text", "PING-01.a")
def pong(message, held):
    is_plain = get(message, "params") in (None, {}) and is_call(message)
    is_it = is_plain and message["method"] == "ping" and held["status"] == 200
    is_other = is_it and (message["id"] == 2**31 or type(message["id"]) is not int)
    return result(message["id"], pong=True) if is_it and not is_other else None


fault("a ping must not have metadata", "PING-01.b",
      when=lambda m: get(m, "method") == "ping" and params(m) == {"_meta": {}},
      then=lambda m: error(m["id"], -32602))  # fmt: skip
fault("a ping must not have params", "F04.a",
      when=lambda m: get(m, "method") == "ping" and "mcpwireUnknown" in params(m),
      then=lambda m: error(m["id"], -32602))  # fmt: skip


@mutant("pings wait for calls", "F04.b", "CAN-05.a")
def blocked(message, state):
    method = state.method_of(message)
    held = state.kept.setdefault("held", [])
    if method == "tools/call":
        state.kept.setdefault("done", set()).add(json.dumps(message["id"]))
        state.kept["held"] = []
        return [message, *held]
    runs = {
        id
        for id, request_params in state.params.items()
        if request_params.get("name") == "slow"
        and request_params["arguments"].get("seconds") == 1.0
    } - state.kept.get("done", set())
    if method == "ping" and runs:
        held.append(message)
        return None
    return message


# --- cancellation


def cancels(message):
    """Return whether a message is a cancellation."""
    return get(message, "method") == "notifications/cancelled"


fault("an unknown cancellation is answered", "CAN-06.a",
      when=lambda m: cancels(m) and params(m).get("requestId") == "mcpwire-never",
      then=lambda m: error(None, -32602))  # fmt: skip
fault("a cancellation without an id is answered", "CAN-06.b",
      when=lambda m: cancels(m) and "requestId" not in params(m),
      then=lambda m: error(None, -32602))  # fmt: skip


def _late(message, state):
    if cancels(message) and params(message).get("reason") == "late":
        return {"jsonrpc": "2.0", "method": "ping", "id": params(message)["requestId"]}
    return message


register(Mutant("a late cancellation brings a second answer", ("CAN-06.c",),
           from_client=_late))  # fmt: skip


def _deaf(message, _):
    is_it = cancels(message) and params(message).get("reason") == "mcpwire"
    return None if is_it else message


register(Mutant("cancelled calls are answered", ("CAN-05.a",), from_client=_deaf))
register(Mutant("cancelled calls of the stateless era are answered", ("TR-STDIO-11.a",),
           from_client=_deaf, revision=NEW))  # fmt: skip


def _loose(message, _):
    id = params(message).get("requestId")
    if cancels(message) and isinstance(id, str) and id.isdigit():
        message["params"]["requestId"] = int(id)
    return message


register(
    Mutant("a cancellation compares ids as texts", ("CAN-06.d",), from_client=_loose)
)


def _cut(message, state):
    if cancels(message) and "reason" not in params(message):
        state.kept["cut"] = isinstance(params(message).get("requestId"), int)
    return message


@mutant("a cancellation takes all calls along", "A15.a", "CAN-06.a",
        from_client=_cut)  # fmt: skip
def all_along(message, state):
    is_call = state.method_of(message) == "tools/call"
    return None if is_call and state.kept.get("cut") else message


# --- progress


def is_progress(message):
    """Return whether a message is a progress notification."""
    return message.get("method") == "notifications/progress"


@mutant("tokens become texts", "PROG-01.a")
def text_tokens(message, _):
    if is_progress(message):
        message["params"]["progressToken"] = str(message["params"]["progressToken"])
    return message


@mutant("falsy tokens are none", "F03.a")
def falsy(message, _):
    is_it = is_progress(message) and not message["params"]["progressToken"]
    return None if is_it else message


@mutant("progress stays where it is", "PROG-02.a")
def constant(message, _):
    if is_progress(message):
        message["params"]["progress"] = 1
    return message


def progress(token):
    """Return a progress notification."""
    about = {"progressToken": token, "progress": 1000}
    return {"jsonrpc": "2.0", "method": "notifications/progress", "params": about}


def is_notify(message, state):
    """Return whether a message is the result of the tool `notify`."""
    is_call = state.method_of(message) == "tools/call"
    return is_call and state.params_of(message).get("name") == "notify"


@mutant("progress comes without a token", "PROG-03.a")
def unasked(message, state):
    request_params = state.params_of(message).get("_meta", {})
    if is_notify(message, state) and "progressToken" not in request_params:
        return [progress("none"), message]
    return message


@mutant("progress of two calls is mixed up", "PROG-03.b")
def mixed(message, _):
    if is_progress(message) and message["params"]["progressToken"] == "mcpwire-one":
        message["params"]["progressToken"] = "mcpwire-two"
    return message


@mutant("progress comes behind the answer", "PROG-04.a")
def behind(message, state):
    request_params = state.params_of(message).get("_meta", {})
    if is_notify(message, state) and "progressToken" in request_params:
        return [message, progress(request_params["progressToken"])]
    return message


fault("unknown progress is answered", "F03.b",
      when=lambda m: get(m, "method") == "notifications/progress",
      then=lambda m: error(None, -32602))  # fmt: skip
fault("a token that is an object is a fault of the server", "F03.c",
      when=lambda m: meta(m).get("progressToken") == {"a": 1},
      then=lambda m: 500)  # fmt: skip


# --- the log


def sets(message):
    """Return the level that a message sets."""
    is_it = get(message, "method") == "logging/setLevel"
    return params(message).get("level") if is_it else None


fault("one level is missing", "LOG-05.a", when=lambda m: sets(m) == "notice",
      then=lambda m: error(m["id"], -32602))  # fmt: skip
fault("unknown levels are taken", "LOG-05.b", when=lambda m: sets(m) == "loud",
      then=lambda m: result(m["id"]))  # fmt: skip
fault("a level may be a number", "F07.a", when=lambda m: sets(m) == 3,
      then=lambda m: result(m["id"]))  # fmt: skip


def _to_debug(message, _):
    if sets(message) == "emergency":
        message["params"]["level"] = "debug"
    return message


register(Mutant("the level is not kept", ("LOG-05.c",), from_client=_to_debug))


def _stuck(message, state):
    if "id" in message:
        last, state.kept["last"] = state.kept.get("last"), sets(message)
        if last == "emergency" and sets(message) == "debug":
            message["params"]["level"] = "emergency"
    return message


register(Mutant("the level is not lowered", ("LOG-05.d",), from_client=_stuck))


def _opted(level):
    def change(message, _):
        if get(message, "method") == "tools/call":
            found = message["params"].setdefault("_meta", {})
            if level is None:
                found.setdefault(LOG_LEVEL, "debug")
            elif LOG_LEVEL in found:
                found[LOG_LEVEL] = level
        return message

    return change


register(Mutant("the log comes unasked", ("LOG-02.a",), from_client=_opted(None),
           revision=NEW))  # fmt: skip
register(Mutant("the level of a request is not kept", ("LOG-02.b",),
           from_client=_opted("debug"), revision=NEW))  # fmt: skip
fault("unknown levels of a request are taken", "LOG-04.a", revision=NEW,
      when=lambda m: meta(m).get(LOG_LEVEL) == "loud",
      then=lambda m: discovered(m["id"]))  # fmt: skip


@mutant("the log comes behind the answer", "LOG-03.a", revision=NEW)
def log_behind(message, state):
    if is_notify(message, state) and LOG_LEVEL in state.params_of(message)["_meta"]:
        about = {"level": "emergency", "data": "late"}
        log = {"jsonrpc": "2.0", "method": "notifications/message", "params": about}
        return [message, log]
    return message


@mutant("the log is not declared", "LOG-01.a")
def undeclared(message, state):
    if state.method_of(message) == "initialize" and "result" in message:
        message["result"]["capabilities"].pop("logging", None)
    return message


def _remembering(message, state):
    if get(message, "method") == "tools/call" and CAPABILITIES in meta(message):
        given = meta(message)[CAPABILITIES]
        kept = state.kept.setdefault("able", {})
        kept |= given
        if not given:
            meta(message)[CAPABILITIES] = kept
    return message


register(Mutant("capabilities are remembered",
                ("META-09.a", "MRTR-06.a", "TX-02.a"),
                from_client=_remembering, revision=NEW))  # fmt: skip

"""Faults in ids, errors, batches and invalid requests."""

from mutants import http_mutant, mutant

OLD = "2025-06-18"
BATCHES = "2025-03-26"


def result(id, **members):
    """Return the result of a server that accepts an invalid request."""
    return {"jsonrpc": "2.0", "id": id, "result": members}


def error(id, code):
    """Return an error, without an id if it is ``None``."""
    found = {"jsonrpc": "2.0", "error": {"code": code, "message": "no"}}
    return found if id is None else {**found, "id": id}


def get(message, name):
    """Return a member of a value, or ``None`` if that is not an object."""
    return message.get(name) if isinstance(message, dict) else None


def meta(message):
    """Return the `_meta` of a request."""
    params = get(message, "params")
    found = params.get("_meta") if isinstance(params, dict) else None
    return found if isinstance(found, dict) else {}


def fault(name, *cases, when, then, **facts):
    """Register a fault over HTTP: other responses to some messages."""
    http_mutant(name, *cases, **facts)(
        lambda message, _: then(message) if when(message) else None
    )


# --- ids


fault("an id of 32 bits overflows", "RPC-07.a", when=lambda m: get(m, "id") == 2**31,
      then=lambda m: result(-(2**31)))  # fmt: skip


@mutant("large ids lose their last digit", "RPC-07.b")
def large_ids(message, _):
    if isinstance(message.get("id"), int):
        message["id"] = int(float(message["id"]))
    return message


@mutant("a result has an error beside it", "SCHEMA.Error")
def result_and_error(message, state):
    if state.method_of(message) == "prompts/list" and "result" in message:
        message["error"] = {"code": -32603, "message": "no"}
    return message


fault("an id of digits becomes a number", "RPC-07.c",
      when=lambda m: get(m, "id") == "7", then=lambda m: result(7))  # fmt: skip
fault("an id of digits beside the number becomes one", "RPC-07.d",
      when=lambda m: get(m, "id") == "7001", then=lambda m: result(7001))  # fmt: skip
fault("errors have ids that are texts", "RPC-08.a",
      when=lambda m: get(m, "id") == 2**31 + 1,
      then=lambda m: error(str(m["id"]), -32601))  # fmt: skip
fault("the id null is answered", "B03.a",
      when=lambda m: isinstance(m, dict) and m.get("id", 0) is None,
      then=lambda m: result(None))  # fmt: skip
fault("the id true is answered", "B03.b", when=lambda m: get(m, "id") is True,
      then=lambda m: result(True))  # fmt: skip


# --- methods and notifications


@mutant("an unknown method is invalid params", "RPC-31.a", "T11-02.a", "T11-03.a")
def unknown_method(message, _):
    broken = message.get("error", {})
    if broken.get("code") == -32601:
        broken["code"] = -32602
    return message


fault("methods are compared without case", "B08.a",
      when=lambda m: get(m, "method") == "Tools/List",
      then=lambda m: result(m["id"], tools=[]))  # fmt: skip
fault("unknown notifications are answered", "RPC-12.a",
      when=lambda m: get(m, "method") == "notifications/mcpwire/unknown",
      then=lambda m: result(None))  # fmt: skip
fault("a method without an id is answered", "RPC-12.b",
      when=lambda m: get(m, "method") == "tools/list" and "id" not in m,
      then=lambda m: result(None, tools=[]))  # fmt: skip
fault("an answer is answered", "B08.b", when=lambda m: get(m, "id") == "mcpwire-never",
      then=lambda m: result(m["id"]))  # fmt: skip
fault("unknown members are refused", "B09.a",
      when=lambda m: isinstance(m, dict) and "mcpwire-unknown" in m,
      then=lambda m: error(m["id"], -32600))  # fmt: skip


# --- invalid requests


@mutant("broken JSON is ignored", "B01.a", "A08.c", "A08.h", "B13.a", "B13.d")
def silent(message, _):
    return None if message.get("error", {}).get("code") == -32700 else message


fault("broken JSON is a fault of the server", "B01.b", revision=OLD,
      when=lambda m: m == b"hello", then=lambda m: "internal server error")  # fmt: skip
fault("a number is accepted as a notification", "B02.a", when=lambda m: m == 42,
      then=lambda m: 202)  # fmt: skip
fault("an empty object is accepted as a notification", "B02.b",
      when=lambda m: m == {}, then=lambda m: 202)  # fmt: skip
fault("a number is a fault of the server", "B02.c", revision=OLD,
      when=lambda m: m == 42, then=lambda m: "internal server error")  # fmt: skip
fault("a method that is a number is ignored", "B02.d",
      when=lambda m: get(m, "method") == 5, then=lambda m: 202)  # fmt: skip
fault("JSON-RPC 1.0 is answered", "B02.e", when=lambda m: get(m, "jsonrpc") == "1.0",
      then=lambda m: result(m["id"]))  # fmt: skip
fault("params that are a text are ignored", "B02.f",
      when=lambda m: get(m, "params") == "x",
      then=lambda m: result(m["id"]))  # fmt: skip
fault("a `_meta` that is a text is ignored", "B02.g",
      when=lambda m: get(m, "params") == {"_meta": "x"},
      then=lambda m: result(m["id"]))  # fmt: skip


# --- batches


def is_batch(message):
    """Return whether a message is an array of objects."""
    return isinstance(message, list) and len(message) > 1 and message[0] != 5


fault("batches are refused", "RPC-13.a", revision=BATCHES,
      when=lambda m: is_batch(m) and "id" in m[0],
      then=lambda m: error(None, -32600))  # fmt: skip
fault("batches of notifications are answered", "RPC-13.b", revision=BATCHES,
      when=lambda m: is_batch(m) and "id" not in m[0], then=lambda m: [])  # fmt: skip
fault("an empty batch is a fault of the server", "B05.a", revision=BATCHES,
      when=lambda m: m == [], then=lambda m: "internal server error")  # fmt: skip
fault("a batch with a fault is dropped", "B05.b", revision=BATCHES,
      when=lambda m: isinstance(m, list) and m[:1] == [5],
      then=lambda m: 202)  # fmt: skip
fault("batches are still taken", "B06.a", when=is_batch,
      then=lambda m: [result(each["id"]) for each in m])  # fmt: skip
fault("an empty array is accepted", "B06.b", when=lambda m: m == [],
      then=lambda m: 202)  # fmt: skip

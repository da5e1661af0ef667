"""Faults in event streams, and with many clients at once."""

import asyncio
import json
import re
import time

from mutants_http import MODERN, body_of, fault, given, refuses_if

ID = "mcp-session-id"
LAST = "last-event-id"
STRAY = b'data: {"jsonrpc":"2.0","id":"stray","result":{}}\n\n'
QUESTION = b'data: {"jsonrpc":"2.0","id":1,"method":"ping"}\n\n'


def verb(held):
    return held["request"]["method"]


def tool_of(message):
    return (message.get("params") or {}).get("name")


def events_of(data):
    return [block + b"\n\n" for block in data.split(b"\n\n") if block]


# --- GET


def no_such_stream(held):
    if verb(held) == "GET" and held["status"] == 200:
        held["status"], held["headers"]["content-type"] = 404, "text/html"


fault(
    "a GET is not found", "LHTTP-15.a", "LHTTP-07.a", "D10.a", response=no_such_stream
)


def answers_on_get(data, held):
    is_new = verb(held) == "GET" and given(held, LAST) is None
    return data + STRAY if is_new else data


fault("a stream by GET carries answers", "LHTTP-16.a", chunk=answers_on_get)


def only_once(status):
    """Return a change: a session may open only one stream by GET."""
    opened = set()

    def response(held):
        is_opening = held["status"] in {200, 409} and given(held, LAST) is None
        if verb(held) == "GET" and is_opening:
            if given(held, ID) in opened:
                held["status"], held["headers"]["content-type"] = status, "text/html"
            opened.add(given(held, ID))

    return response


fault("a second GET fails", "D07.a", "D07.b", response=only_once(500))
fault("a stream opens once in a session", "D07.b", response=only_once(409))

# --- which stream


def reports_twice(data, _):
    found = b""
    for event in events_of(data):
        repeated = re.sub(rb"id: ([^\n]*)", rb"id: \1-again", event)
        found += event + (repeated if b"notifications/progress" in event else b"")
    return found


fault("reports of progress come twice", "LHTTP-19.a", "D10.a", chunk=reports_twice)

TOKENS = {}
"""Request id (JSON) -> the token of a call of `notify`."""


def note_token(message, head):
    token = ((message.get("params") or {}).get("_meta") or {}).get("progressToken")
    if tool_of(message) == "notify" and token is not None:
        TOKENS[json.dumps(message["id"])] = json.dumps(token).encode()
    return message


def other_token(data, held):
    own = json.dumps(body_of(held).get("id"))
    others = [token for id, token in TOKENS.items() if id != own]
    if own in TOKENS and others and b"notifications/progress" in data:
        data = data.replace(TOKENS[own], others[-1])
    return data


for ids, revision in (
    # Replayed events have the right token.
    (("LHTTP-11.a", "D09.a", "LHTTP-22.a"), "2025-11-25"),
    (("TR-HTTP-14.a",), MODERN),
):
    fault(
        f"reports have the token of another call at {revision}",
        *ids,
        message=note_token,
        chunk=other_token,
        revision=revision,
    )

RUNNING = []
SWAPPED = []


async def note_running(message, head):
    if tool_of(message) == "notify":
        RUNNING.append(message["id"])
        for _ in range(30):  # poll until three run at once
            if len(RUNNING) >= 3:
                break
            await asyncio.sleep(0.01)
    return message


def other_id(data, held):
    own = body_of(held).get("id")
    if own in RUNNING and b'"result"' in data:
        if len(RUNNING) >= 3:
            other = RUNNING[RUNNING.index(own) - 1]
            SWAPPED.append(own)
            if len(SWAPPED) == len(RUNNING):
                RUNNING.clear()
                SWAPPED.clear()
            return data.replace(b'"id":%d' % own, b'"id":%d' % other)
        RUNNING.remove(own)
    return data


for id, revision in (("LHTTP-09.b", "2025-11-25"), ("TR-HTTP-16.b", MODERN)):
    fault(
        f"answers come on the response to another request at {revision}",
        id,
        message=note_running,
        chunk=other_id,
        revision=revision,
    )


def stays_open(held):
    is_stream = held["headers"].get("content-type", "").startswith("text/event-stream")
    is_call = tool_of(body_of(held)) == "notify"
    # The fault: longer than the bound of an answer, which is 2 s here.
    return asyncio.sleep(4) if is_stream and is_call else None


for id, revision in (("LHTTP-09.a", "2025-11-25"), ("TR-HTTP-16.a", MODERN)):
    fault(
        f"streams stay open after the answer at {revision}",
        id,
        ending=stays_open,
        revision=revision,
    )

# --- ids and resumption

REAL = {}


def number(data, held):
    numbers = held.setdefault("numbers", iter(range(10_000)))

    def name(found):
        short = b"e%d" % next(numbers)
        REAL[given(held, ID), short.decode()] = found[1].decode()
        return b"id: " + short

    return re.sub(rb"id: ([^\n]*)", name, data)


def real_id(head):
    name = (head["headers"].get(ID), head["headers"].get(LAST))
    if name in REAL:
        head["headers"][LAST] = REAL[name]


fault(
    "events are numbered in each stream anew",
    "LHTTP-20.a",
    "LHTTP-22.a",
    "D09.a",
    request=real_id,
    chunk=number,
)


def not_primed(data, held):
    if tool_of(body_of(held)) != "notify":
        return data
    return b"".join(e for e in events_of(data) if re.search(rb"data: ?[^\n ]", e))


fault("streams begin with a message", "LHTTP-06.a", chunk=not_primed)

KEPT = {}
"""Session -> the last event of a call."""


def with_others(data, held):
    session = given(held, ID)
    if verb(held) == "POST" and b'"result"' in data:
        KEPT[session] = events_of(data)[-1]
    if verb(held) == "GET" and given(held, LAST) and session in KEPT:
        return KEPT[session] + data
    return data


fault(
    "a resumed stream has messages of another one",
    "LHTTP-22.a",
    "D09.a",
    "D10.a",
    chunk=with_others,
)


def loses_first(data, held):
    if verb(held) != "GET" or not given(held, LAST):
        return data
    return b"".join(e for e in events_of(data) if b"notifications/progress" not in e)


fault("a resumed stream loses reports", "D09.a", chunk=loses_first)

ANSWERS = []


def keep_answer(data, held):
    if verb(held) == "POST" and b'"result"' in data:
        ANSWERS[:] = [events_of(data)[-1]]
    return data


def of_all(held):
    id = given(held, LAST) or "mcpwire"
    is_known = not id.startswith(("mcpwire", "xxx"))
    if verb(held) == "GET" and is_known and held["status"] >= 400:
        held["status"], held["body"] = 200, b"".join(ANSWERS)
        held["headers"] = {"content-type": "text/event-stream"}


fault(
    "ids of events count in all sessions",
    "LHTTP-22.b",
    chunk=keep_answer,
    response=of_all,
)
fault(
    "an unknown event is a failure of the server",
    "D09.b",
    response=refuses_if(lambda held: (given(held, LAST) or "").startswith("xxx"), 500),
)

SLOW = set()
POLLED = set()


def note_calls(message, head):
    found = {"slow": SLOW, "poll": POLLED}.get(tool_of(message))
    if found is not None:
        found.add(b'"id":%d' % message["id"])
    return message


def cancelled(data, held):
    if verb(held) != "GET":
        return data
    return b"".join(e for e in events_of(data) if not any(id in e for id in SLOW))


fault(
    "a lost connection cancels the call",
    "LHTTP-12.a",
    message=note_calls,
    chunk=cancelled,
)


def no_retry(data, _):
    return re.sub(rb"retry: ?[0-9]+\n", b"", data)


fault("streams do not say when to come back", "LHTTP-07.a", chunk=no_retry)


def twice(data, held):
    return data * 2 if any(id in data for id in POLLED) else data


fault("polled answers come twice", "D10.a", message=note_calls, chunk=twice)

# --- form


def named(data, _):
    data = re.sub(rb"event: [^\n]*\n", b"", data)
    return data.replace(b"data: {", b"event: answer\ndata: {")


fault("events have a name of their own", "D16.a", chunk=named)


def without(name):
    def response(held):
        if "event-stream" in held["headers"].get("content-type", ""):
            held["headers"].pop(name, None)

    return response


fault("streams may be cached", "D16.b", response=without("cache-control"))
fault(
    "streams may be buffered",
    "TR-HTTP-18.a",
    response=without("x-accel-buffering"),
    revision=MODERN,
)


def asks(data, held):
    return QUESTION + data if b'"result"' in data else data


fault("streams carry requests", "TR-HTTP-15.a", chunk=asks, revision=MODERN)

# --- many at once


def crossed(held):
    held["body"] = re.sub(rb"mcpwire-\d+-of", b"mcpwire-0-of", held["body"])


fault("under load answers are crossed", "D15.a", response=crossed)

BY_ID = {}


def by_id(held):
    if b"mcpwire-session-" in held["body"]:
        held["body"] = BY_ID.setdefault(body_of(held).get("id"), held["body"])


fault("answers are kept by their ids alone", "D15.c", response=by_id)


SESSIONS = []
"""The sessions with progress for the token that they share."""


def to_both(data, held):
    if b"mcpwire-same" not in data:
        return data
    session = given(held, "mcp-session-id")
    if session not in SESSIONS:
        SESSIONS.append(session)
    return data if session == SESSIONS[0] else data * 2


fault("reports are kept by their tokens alone", "D15.d", chunk=to_both)

BUSY = [0.0]


def note_busy(message, head):
    if tool_of(message) == "slow":
        BUSY[0] = time.monotonic() + 0.6
    return message


def one_after_another(head):
    left = BUSY[0] - time.monotonic()
    return asyncio.sleep(left) if left > 0 else None


fault(
    "a slow call keeps others waiting",
    "D15.e",
    message=note_busy,
    request=one_after_another,
)

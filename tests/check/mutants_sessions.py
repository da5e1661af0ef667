"""Faults in sessions over HTTP, and in the protection against web pages."""

import asyncio
import itertools

from mutants_http import body_of, fault, given, refuse, refuses_if

ID = "mcp-session-id"
VERSION = "mcp-protocol-version"
UNKNOWN = "00000000-0000-4000-8000-000000000000"
EVIL = "http://evil.example"


def verb(held):
    return held["request"]["method"]


# --- ids


def spaced(held):
    if ID in held["headers"]:
        held["headers"][ID] += " x"


def unspaced(head):
    if ID in head["headers"]:
        head["headers"][ID] = head["headers"][ID].removesuffix(" x")


fault("ids of sessions have spaces", "LHTTP-23.a", request=unspaced, response=spaced)

NUMBERS = itertools.count(1)
NAMES = {}


def numbered(held):
    if ID in held["headers"]:
        name = f"session-of-the-server-{next(NUMBERS):06}"
        NAMES[name] = held["headers"][ID]
        held["headers"][ID] = name


def unnumbered(head):
    if head["headers"].get(ID) in NAMES:
        head["headers"][ID] = NAMES[head["headers"][ID]]


fault("sessions are numbered", "LHTTP-23.b", request=unnumbered, response=numbered)

for letter, name in zip("abc", ("POST", "GET", "DELETE"), strict=True):
    fault(
        f"a {name} without an id is not found",
        f"LHTTP-25.{letter}",
        response=refuses_if(
            lambda h, n=name: (
                verb(h) == n
                and given(h, ID) is None
                and body_of(h).get("method") != "initialize"
                and h["status"] == 400
            ),
            404,
        ),
    )
    fault(
        f"a {name} with an unknown id is a bad request",
        f"D04.{letter}",
        response=refuses_if(
            lambda h, n=name: verb(h) == n and given(h, ID) == UNKNOWN, 400
        ),
    )
    fault(
        f"a {name} with the id of an ended session is a bad request",
        f"LHTTP-26.{letter}",
        response=refuses_if(
            lambda h, n=name: (
                verb(h) == n and h["status"] == 404 and given(h, ID) != UNKNOWN
            ),
            400,
        ),
    )

fault(
    "a path as an id is a failure of the server",
    "D04.d",
    response=refuses_if(lambda held: "/" in (given(held, ID) or ""), 500),
)

# --- DELETE


def bad_delete(held):
    if verb(held) == "DELETE" and held["status"] == 204:
        refuse(held, 400)


fault("a DELETE is a bad request", "LHTTP-28.a", response=bad_delete)

BEGUN = []


def note_begun(held):
    if ID in held["headers"]:
        BEGUN.append(held["headers"][ID])


def another_instead(head):
    if head["method"] == "DELETE" and head["headers"].get(ID) == UNKNOWN:
        head["headers"][ID] = BEGUN[-2]


fault(
    "a DELETE with an unknown id ends another session",
    "D04.e",
    "D04.c",
    request=another_instead,
    response=note_begun,
)

STREAMED = set()


def keeps_streamed(head):
    if head["method"] == "GET":
        STREAMED.add(head["headers"].get(ID))
    elif head["method"] == "DELETE" and head["headers"].get(ID) in STREAMED:
        head["method"] = "PATCH"


def pretends(held):
    if held["request"]["given"] and verb(held) == "PATCH" and given(held, ID):
        held["status"], held["body"], held["headers"] = 204, b"", {}


fault(
    "a DELETE leaves the stream open",
    "D04.f",
    "D04.c",
    "D12.a",
    request=keeps_streamed,
    response=pretends,
)

CALLING = set()
ENDED = set()


def note_call(message, head):
    if (message.get("params") or {}).get("name") == "slow":
        CALLING.add(head["given"].get(ID))
    return message


def note_end(head):
    if head["method"] == "DELETE" and head["given"].get(ID) in CALLING:
        ENDED.add(head["given"][ID])


def never(held):
    is_call = body_of(held).get("method") == "tools/call"
    # The fault: longer than the bound of an answer, which is 2 s here.
    return asyncio.sleep(5) if is_call and given(held, ID) in ENDED else None


fault(
    "a call of an ended session has no end",
    "D04.g",
    message=note_call,
    request=note_end,
    ending=never,
)

# --- the version header


def reads_version(name, version):
    def request(head):
        if head["method"] == name and head["given"].get(VERSION) == version:
            head["headers"][VERSION] = "2025-11-25"

    return request


for letter, name, version in (
    ("a", "POST", "2999-01-01"),
    ("d", "POST", "banana"),
    ("b", "GET", "1999-01-01"),
    ("c", "DELETE", "1999-01-01"),
):
    fault(
        f"a {name} of the version {version} is taken",
        f"LHTTP-31.{letter}",
        request=reads_version(name, version),
    )
fault(
    "the version header is needed within a session",
    "LHTTP-30.a",
    response=refuses_if(
        lambda held: (
            verb(held) == "POST"
            and given(held, ID)
            and given(held, VERSION) is None
            and body_of(held).get("method") == "ping"
        )
    ),
)

# --- Origin and Host


def ignores_field(field, *values, when=lambda _: True):
    """Return a change of requests: a field with one of these values is ignored."""

    def request(head):
        if head["given"].get(field) in values and when(head):
            if field == "host":
                head["headers"]["host"] = "127.0.0.1"
            else:
                head["headers"].pop(field)

    return request


def is_verb(name):
    return lambda head: head["method"] == name


for letter, name, origin in (
    ("a", "POST", EVIL),
    ("b", "GET", EVIL),
    ("c", "DELETE", EVIL),
    ("d", "POST", "http://localhost.evil.example"),
    ("e", "POST", "http://127.0.0.1.evil.example"),
):
    for rule, revision in (("03", "2025-11-25"), ("02", "2025-06-18")):
        fault(
            f"a {name} of {origin} is let in at {revision}",
            f"TR-HTTP-{rule}.{letter}",
            *(("TR-HTTP-03.f", "D06.c") if letter == "a" else ()),
            request=ignores_field("origin", origin, when=is_verb(name)),
            revision=revision,
        )
fault(
    "a foreign page may begin a session",
    "TR-HTTP-03.f",
    request=ignores_field("origin", EVIL, when=lambda head: ID not in head["given"]),
)
fault("a page of no origin is let in", "D06.a", request=ignores_field("origin", "null"))
fault(
    "what is no origin is let in",
    "D06.b",
    request=ignores_field("origin", "mcpwire, no origin"),
)


def one_origin(head):
    if head["names"].count("origin") > 1:
        head["headers"].pop("origin")


fault("of two origins none is looked at", "D06.c", request=one_origin)
for letter, name, host in (
    ("d", "POST", "evil.example"),
    ("e", "GET", "evil.example"),
    ("f", "POST", "localhost.evil.example"),
):
    fault(
        f"a {name} for {host} is served",
        f"D06.{letter}",
        request=ignores_field("host", host, when=is_verb(name)),
    )


def allows_all(held):
    if given(held, "origin"):
        held["headers"]["access-control-allow-origin"] = "*"


fault("all pages may read the answers", "D06.g", response=allows_all)

"""The first request decides the era; each row is sent raw, over one stream."""

import pytest
from raw_client import (
    ALL,
    CAPABILITIES_KEY,
    CLIENT_KEY,
    META,
    SERVER,
    SESSIONS,
    STAMP,
    VERSION_KEY,
    Hand,
    failure,
    modern,
    notice,
    request,
    server,
    session,
    success,
)

from mcpwire.versions import Era, revisions_of

NEEDS_META = (
    f"params._meta needs {VERSION_KEY} and {CAPABILITIES_KEY}, "
    "or initialize must come first"
)
UNSUPPORTED = "the protocol version is not supported"
DISCOVERED = {
    "supportedVersions": ALL,
    "capabilities": {"tools": {}},
    "instructions": "Be kind.",
    "ttlMs": 0,
    "cacheScope": "private",
    **STAMP,
}


def hand(version=None, **options):
    """Open a connection to a server with one list."""
    dispatcher = server(
        {"tools/list": lambda params, request: {"tools": []}},
        {"tools": {}},
        instructions="Be kind.",
        **options,
    )
    return Hand(dispatcher, version)


def unsupported(id, requested, supported=ALL):
    data = {"supported": list(supported), "requested": requested}
    return failure(id, -32022, UNSUPPORTED, data)


def unknown(id, method, revision):
    return failure(
        id, -32601, f"{method!r} is not a method of this server at {revision}"
    )


ALONE = {
    "discover": (modern(1, "server/discover"), success(1, DISCOVERED)),
    "a list": (
        modern("a", "tools/list"),
        success("a", {"tools": [], "ttlMs": 0, "cacheScope": "private", **STAMP}),
    ),
    "without clientInfo": (
        request(1, "server/discover", {}, {k: META[k] for k in list(META)[:2]}),
        success(1, DISCOVERED),
    ),
    "with a malformed clientInfo": (
        modern(1, "server/discover", **{CLIENT_KEY: "me"}),
        success(1, DISCOVERED),
    ),
    "an unknown version": (
        modern(1, "tools/list", **{VERSION_KEY: "1999-01-01"}),
        unsupported(1, "1999-01-01"),
    ),
    "a version that has sessions only": (
        modern(1, "tools/list", **{VERSION_KEY: "2025-11-25"}),
        unsupported(1, "2025-11-25"),
    ),
    "no version": (
        request(1, "tools/list", {}, {CAPABILITIES_KEY: {}}),
        failure(1, -32602, f"params._meta needs {VERSION_KEY}, a string"),
    ),
    "a version that is not a string": (
        modern(1, "tools/list", **{VERSION_KEY: 2026}),
        failure(1, -32602, f"params._meta needs {VERSION_KEY}, a string"),
    ),
    "no capabilities": (
        request(1, "tools/list", {}, {VERSION_KEY: "2026-07-28"}),
        failure(1, -32602, f"params._meta needs {CAPABILITIES_KEY}, an object"),
    ),
    "capabilities that are not an object": (
        modern(1, "tools/list", **{CAPABILITIES_KEY: []}),
        failure(1, -32602, f"params._meta needs {CAPABILITIES_KEY}, an object"),
    ),
    "missing capabilities are reported before the version": (
        request(1, "tools/list", {}, {VERSION_KEY: "1999-01-01"}),
        failure(1, -32602, f"params._meta needs {CAPABILITIES_KEY}, an object"),
    ),
    "an unknown version is reported before the method": (
        modern(1, "no/such", **{VERSION_KEY: "1999-01-01"}),
        unsupported(1, "1999-01-01"),
    ),
    "an unknown method": (modern(1, "no/such"), unknown(1, "no/such", "2026-07-28")),
    "a method whose capability is not declared": (
        modern(1, "prompts/list"),
        unknown(1, "prompts/list", "2026-07-28"),
    ),
    "a notification's name": (
        modern(1, "notifications/cancelled"),
        unknown(1, "notifications/cancelled", "2026-07-28"),
    ),
    "_meta that is not an object": (
        request(1, "tools/list", {"_meta": 7}),
        failure(1, -32602, "params._meta must be an object"),
    ),
}
"""Requests and their responses, with or without a session."""

REMOVED = [
    "initialize",
    "ping",
    "logging/setLevel",
    "resources/subscribe",
    "resources/unsubscribe",
]


@pytest.mark.rule(
    "META-08", "META-11", "VER-02", "VER-04", "VER-05", "VER-07", "RPC-16", "RPC-31"
)
@pytest.mark.parametrize("version", [None, "2025-11-25"], ids=["fresh", "in a session"])
@pytest.mark.parametrize("name", ALONE)
async def test_request_with_a_version_in_meta_is_stateless(name, version):
    message, expected = ALONE[name]
    wire = hand(version)
    assert await wire.ask(message) == [expected]


@pytest.mark.rule("PING-03", "VER-10")
@pytest.mark.parametrize("version", [None, "2025-11-25"], ids=["fresh", "in a session"])
@pytest.mark.parametrize("method", REMOVED)
async def test_methods_removed_in_2026_are_unknown_at_that_version(method, version):
    wire = hand(version)
    params = session() if method == "initialize" else {"level": "info", "uri": "a:b"}
    answers = await wire.ask(modern(1, method, params))
    assert answers == [unknown(1, method, "2026-07-28")]
    assert (wire.connection.session is None) == (version is None)


@pytest.mark.rule("LIFE-03", "LIFE-08")
@pytest.mark.parametrize(
    ("asked", "given"),
    [
        *((version, version) for version in SESSIONS),
        ("2026-07-28", "2025-11-25"),
        ("1999-01-01", "2025-11-25"),
        ("", "2025-11-25"),
    ],
)
async def test_initialize_negotiates_requested_or_latest_version(asked, given):
    wire = hand()
    answers = await wire.ask(request(1, "initialize", session(asked)))
    assert answers == [
        success(
            1,
            {
                "protocolVersion": given,
                "capabilities": {"tools": {}},
                "instructions": "Be kind.",
                "serverInfo": SERVER,
            },
        )
    ]
    assert wire.revision.name == given


@pytest.mark.rule("PING-01")
@pytest.mark.parametrize("version", SESSIONS)
async def test_a_ping_is_answered_in_a_session(version):
    assert await hand(version).ask(request(1, "ping")) == [success(1, {})]


@pytest.mark.unchecked_wire("no revision is agreed and the check takes the latest")
async def test_a_ping_is_answered_before_a_session():
    assert await hand().ask(request(1, "ping")) == [success(1, {})]


@pytest.mark.rule("RPC-07", "RPC-31")
@pytest.mark.parametrize("version", SESSIONS)
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (request(1, "tools/list"), success(1, {"tools": []})),
        (request("1", "tools/list"), success("1", {"tools": []})),
        (request("", "tools/list"), success("", {"tools": []})),
        (request(0, "tools/list", {"_meta": None}), success(0, {"tools": []})),
        (request(-1, "tools/list", {}, {}), success(-1, {"tools": []})),
        (request(1, "server/discover"), "unknown"),
        (request(1, "prompts/list"), "unknown"),
        (request(1, "subscriptions/listen"), "unknown"),
        (request(1, "logging/setLevel", {"level": "info"}), "unknown"),
        (request(1, "no/such"), "unknown"),
    ],
)
async def test_request_without_a_version_uses_the_session(asked, expected, version):
    if expected == "unknown":
        expected = unknown(1, asked["method"], version)
    assert await hand(version).ask(asked) == [expected]


@pytest.mark.rule("META-08", "LIFE-01")
@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (request(1, "tools/list"), failure(1, -32602, NEEDS_META)),
        (request(1, "server/discover", {}), failure(1, -32602, NEEDS_META)),
        (request(1, "no/such", {}, {"a": 1}), failure(1, -32602, NEEDS_META)),
        (
            request(1, "initialize", {**session(), "protocolVersion": 1}),
            failure(1, -32602, "params.protocolVersion must be a string"),
        ),
        (
            request(1, "initialize", {**session(), "capabilities": None}),
            failure(1, -32602, "params.capabilities must be an object"),
        ),
        (
            request(1, "initialize", {**session(), "clientInfo": []}),
            failure(1, -32602, "params.clientInfo must be an object"),
        ),
        (
            request(1, "initialize"),
            failure(1, -32602, "params.protocolVersion must be a string"),
        ),
        (
            request(1, "initialize", session(), {CAPABILITIES_KEY: {}}),
            failure(1, -32602, f"params._meta needs {VERSION_KEY}, a string"),
        ),
    ],
)
async def test_request_without_version_or_session_is_refused(asked, expected):
    wire = hand()
    assert await wire.ask(asked) == [expected]
    assert wire.connection.session is None
    assert wire.revision is None


@pytest.mark.rule("VER-10", "META-14")
async def test_one_stream_serves_both_eras_independently():
    wire = hand()
    listed = {"tools": []}
    alone = {**listed, "ttlMs": 0, "cacheScope": "private", **STAMP}
    assert await wire.ask(modern(1, "tools/list")) == [success(1, alone)]
    # The stateless request before did not open a session.
    assert await wire.ask(request(2, "tools/list")) == [failure(2, -32602, NEEDS_META)]
    [opened] = await wire.ask(request(3, "initialize", session("2025-06-18")))
    assert opened["result"]["protocolVersion"] == "2025-06-18"
    assert await wire.ask(request(4, "tools/list")) == [success(4, listed)]
    assert await wire.ask(modern(5, "tools/list")) == [success(5, alone)]
    assert await wire.ask(request(6, "tools/list")) == [success(6, listed)]


@pytest.mark.rule("META-09", "META-14")
async def test_meta_capabilities_apply_to_that_request_only():
    seen = []

    def listed(params, request):
        seen.append((dict(request.client_capabilities), request.client_info))
        return {"tools": []}

    wire = Hand(server({"tools/list": listed}, {"tools": {}}))
    rich = {CAPABILITIES_KEY: {"roots": {}}, CLIENT_KEY: {"name": "a", "version": "1"}}
    bare = {VERSION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}
    await wire.ask(modern(1, "tools/list", **rich))
    await wire.ask(request(2, "tools/list", {}, bare))
    opening = {**session(), "capabilities": {"sampling": {}}}
    await wire.ask(request(3, "initialize", opening))
    await wire.ask(request(4, "tools/list"), request(5, "tools/list", {}, bare))
    assert seen == [
        ({"roots": {}}, {"name": "a", "version": "1"}),
        ({}, None),
        ({"sampling": {}}, {"name": "hand", "version": "1"}),
        ({}, None),
    ]


@pytest.mark.rule("VER-09")
async def test_stateless_server_lists_its_versions_on_initialize():
    wire = hand(revisions=revisions_of(Era.STATELESS))
    assert await wire.ask(request(1, "initialize", session())) == [
        unsupported(1, "2025-11-25", ["2026-07-28"])
    ]
    needs_meta = NEEDS_META.partition(", or")[0]
    assert await wire.ask(request(2, "ping")) == [failure(2, -32602, needs_meta)]
    [answer] = await wire.ask(modern(3, "server/discover"))
    assert answer["result"]["supportedVersions"] == ["2026-07-28"]


@pytest.mark.unchecked_wire("the check reads a version in _meta, this server does not")
async def test_session_only_server_ignores_the_version_in_meta():
    wire = hand(revisions=revisions_of(Era.SESSION))
    early = failure(1, -32600, "initialize must come first")
    assert await wire.ask(modern(1, "server/discover")) == [early]
    [opened] = await wire.ask(request(2, "initialize", session("2026-07-28"), META))
    assert opened["result"]["protocolVersion"] == "2025-11-25"
    assert await wire.ask(modern(3, "tools/list")) == [success(3, {"tools": []})]


@pytest.mark.parametrize(
    ("revision", "expected"),
    [
        ("2024-11-05", {"tools": {}}),
        ("2025-03-26", {"tools": {}, "completions": {}}),
        ("2025-06-18", {"tools": {}, "completions": {}}),
        ("2025-11-25", {"tools": {}, "completions": {}, "tasks": {}}),
        ("2026-07-28", {"tools": {}, "completions": {}, "extensions": {"a.b/c": {}}}),
    ],
)
async def test_server_declares_only_capabilities_of_the_revision(revision, expected):
    capabilities = {
        "tools": {},
        "completions": {},
        "tasks": {},
        "extensions": {"a.b/c": {}},
    }
    wire = Hand(server({}, capabilities))
    if revision == ALL[0]:
        [answer] = await wire.ask(modern(1, "server/discover"))
    else:
        [answer] = await wire.ask(request(1, "initialize", session(revision)))
    assert answer["result"]["capabilities"] == expected


@pytest.mark.rule("RPC-12")
async def test_notifications_get_no_response():
    wire = hand("2025-11-25")
    wire.send(
        notice("notifications/initialized"),
        notice("notifications/no_such"),
        notice("notifications/cancelled", requestId=99),
        notice("tools/list"),
        notice("notifications/cancelled"),
    )
    assert await wire.settled() == []


async def test_session_is_initialized_after_the_notification():
    wire = hand()
    wire.send(notice("notifications/initialized"))
    assert wire.connection.session is None
    wire.send(request(1, "initialize", session()))
    assert not wire.connection.session.is_initialized
    wire.send(notice("notifications/initialized"))
    assert wire.connection.session.is_initialized

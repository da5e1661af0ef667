"""Results and errors of handlers, and the responses to them in each era."""

import asyncio
import logging

import pytest
from raw_client import (
    CAPABILITIES_KEY,
    SERVER,
    SERVER_KEY,
    STAMP,
    Hand,
    failure,
    modern,
    request,
    server,
    success,
)

from mcpwire import (
    InternalError,
    InvalidParams,
    MissingCapability,
    ResourceNotFound,
    RPCError,
    ToolError,
    UrlElicitationRequired,
)
from mcpwire.protocol.methods import METHODS, TASKS, available_method
from mcpwire.versions import LATEST, REVISIONS

SECRET = "the password is hunter2"
FAILED = failure(1, -32603, "the handler failed")
CAPABILITIES = {"tools": {}, "resources": {}, "prompts": {}, "completions": {}}


def answering(outcome, method="resources/read", *, slowly=False):
    """Open a connection whose handler of one method returns or raises `outcome`."""

    def handler(params, request):
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def slow_handler(params, request):
        await asyncio.sleep(0)  # one loop iteration
        return handler(params, request)

    chosen = slow_handler if slowly else handler
    return Hand(server({method: chosen}, CAPABILITIES), "2025-11-25")


async def both(wire, method):
    """Send a session and a stateless request; return both responses."""
    return await wire.ask(request(1, method), modern(2, method))


@pytest.mark.parametrize("slowly", [False, True], ids=["plain", "async"])
async def test_handler_may_be_sync_or_async(slowly):
    wire = answering({"messages": []}, "prompts/get", slowly=slowly)
    assert await both(wire, "prompts/get") == [
        success(1, {"messages": []}),
        success(2, {"messages": [], **STAMP}),
    ]


PRIVATE = {"ttlMs": 0, "cacheScope": "private"}


@pytest.mark.rule("CACHE-01")
@pytest.mark.parametrize(
    ("method", "result", "hints"),
    [
        ("tools/list", {"tools": []}, PRIVATE),
        ("prompts/list", {"prompts": []}, PRIVATE),
        ("resources/list", {"resources": []}, PRIVATE),
        ("resources/templates/list", {"resourceTemplates": []}, PRIVATE),
        ("resources/read", {"contents": []}, PRIVATE),
        ("tools/call", {"content": []}, {}),
        ("prompts/get", {"messages": []}, {}),
        ("completion/complete", {"completion": {"values": []}}, {}),
    ],
)
async def test_only_cacheable_results_have_default_cache_hints(method, result, hints):
    assert await both(answering(result, method), method) == [
        success(1, result),
        success(2, {**result, **hints, **STAMP}),
    ]
    own = {**result, "ttlMs": 9, "cacheScope": "public"}
    assert await both(answering(own, method), method) == [
        success(1, result),
        success(2, {**own, **STAMP}),
    ]


@pytest.mark.rule("CACHE-03")
@pytest.mark.parametrize("ttl", [-1, 1.5, "60", None, True])
async def test_invalid_ttl_is_sent_as_zero(ttl):
    wire = answering({"contents": [], "ttlMs": ttl})
    [answer] = await wire.ask(modern(1, "resources/read"))
    assert answer["result"]["ttlMs"] == 0


@pytest.mark.rule("CACHE-02")
@pytest.mark.case("F15")
async def test_input_required_result_has_no_cache_hints():
    result = {"resultType": "input_required", "requestState": "s"}
    wire = answering(result)
    assert await wire.ask(modern(1, "resources/read", {"uri": "a:b"})) == [
        success(1, {**STAMP, **result})
    ]


@pytest.mark.rule("META-11")
async def test_server_info_is_merged_into_a_copy_of_the_meta():
    result = {"messages": [], "_meta": {"a.b/c": 1}}
    wire = answering(result, "prompts/get")
    expected = {**result, **STAMP, "_meta": {"a.b/c": 1, SERVER_KEY: SERVER}}
    assert await both(wire, "prompts/get") == [success(1, result), success(2, expected)]
    assert result == {"messages": [], "_meta": {"a.b/c": 1}}


async def test_session_result_omits_fields_of_2026():
    result = {"messages": [], "resultType": "complete", "ttlMs": 1, "cacheScope": "x"}
    wire = answering(result, "prompts/get")
    assert await wire.ask(request(1, "prompts/get")) == [success(1, {"messages": []})]


@pytest.mark.parametrize("result", [None, [], "text", 7])
async def test_handler_result_that_is_not_a_dict_is_an_error(result, caplog):
    wire = answering(result)
    assert await wire.ask(request(1, "resources/read")) == [FAILED]
    assert "not a dict" in caplog.text


async def test_result_that_is_not_json_is_an_internal_error():
    wire = answering({"contents": [object()]})
    [answer] = await wire.ask(request(1, "resources/read"))
    assert answer["error"]["code"] == -32603
    assert "$.result.contents[0]" in answer["error"]["message"]


@pytest.mark.rule("TOOL-15")
@pytest.mark.parametrize("slowly", [False, True], ids=["plain", "async"])
async def test_tool_error_is_an_error_result_with_its_message(slowly):
    wire = answering(ToolError("no such city"), "tools/call", slowly=slowly)
    expected = {"content": [{"type": "text", "text": "no such city"}], "isError": True}
    assert await both(wire, "tools/call") == [
        success(1, expected),
        success(2, {**expected, **STAMP}),
    ]


@pytest.mark.rule("TOOL-15")
@pytest.mark.parametrize(
    "error",
    [RuntimeError(SECRET), KeyError(SECRET), SystemExit(SECRET), OSError(1, SECRET)],
    ids=lambda error: type(error).__name__,
)
async def test_exception_of_a_tool_is_logged_but_not_sent(error, caplog):
    wire = answering(error, "tools/call")
    expected = {
        "content": [{"type": "text", "text": "the tool failed"}],
        "isError": True,
    }
    asked = request(1, "tools/call", {"name": "opaque"})
    assert await wire.ask(asked) == [success(1, expected)]
    [record] = caplog.records
    assert (record.levelno, record.name) == (logging.ERROR, "mcpwire")
    assert record.getMessage() == "the handler of 'tools/call' of 'opaque' raised"
    assert record.exc_info[1] is error


@pytest.mark.parametrize(
    "error",
    [RuntimeError(SECRET), SystemExit(SECRET), ToolError(SECRET)],
    ids=lambda error: type(error).__name__,
)
async def test_exception_of_another_handler_is_an_internal_error(error, caplog):
    wire = answering(error, slowly=True)
    asked = request(1, "resources/read", {"uri": "memo://" + "x" * 200})
    assert await wire.ask(asked) == [FAILED]
    [record] = caplog.records
    assert record.exc_info[1] is error
    expected = f"the handler of 'resources/read' of 'memo://{'x' * 93}' raised"
    assert record.getMessage() == expected


@pytest.mark.pain("P02")
async def test_cancelled_error_in_a_handler_is_an_internal_error(caplog):
    wire = answering(asyncio.CancelledError(), slowly=True)
    assert await wire.ask(request(1, "resources/read")) == [FAILED]


@pytest.mark.parametrize(
    "error",
    [
        InvalidParams("unknown tool", data={"name": "x"}),
        InternalError("the disk is full"),
        RPCError("mine", code=-7),
        RPCError("mine", code=1),
        RPCError("edge", code=-32769),
    ],
)
@pytest.mark.parametrize("method", ["tools/call", "resources/read"])
async def test_rpc_error_is_sent_as_raised(error, method):
    wire = answering(error, method)
    expected = (error.code, error.message, error.data)
    assert await both(wire, method) == [failure(1, *expected), failure(2, *expected)]


@pytest.mark.rule("RES-04", "RES-05", "RPC-27")
async def test_resource_not_found_has_the_error_code_of_its_era():
    wire = answering(ResourceNotFound("no such resource", data={"uri": "a:b"}))
    assert await both(wire, "resources/read") == [
        failure(1, -32002, "no such resource", {"uri": "a:b"}),
        failure(2, -32602, "no such resource", {"uri": "a:b"}),
    ]


@pytest.mark.rule("RPC-24", "RPC-26", "RPC-27", "RPC-29")
@pytest.mark.parametrize(
    "error",
    [
        UrlElicitationRequired("visit", data={"elicitations": []}),
        RPCError("mine", code=-32000),
        RPCError("mine", code=-32019),
        RPCError("mine", code=-32050),
        RPCError("mine", code=-32099),
        RPCError("mine", code=-32768),
    ],
    ids=lambda error: str(error.code),
)
async def test_undefined_reserved_code_is_replaced_when_stateless(error, caplog):
    wire = answering(error)
    assert await wire.ask(modern(1, "resources/read")) == [FAILED]
    assert str(error.code) in caplog.text
    [answer] = await wire.ask(request(2, "resources/read"))
    assert answer["error"]["code"] == error.code


async def test_defined_reserved_code_is_sent_as_raised():
    required = {"requiredCapabilities": {"sampling": {}}}
    wire = answering(MissingCapability("needs sampling", data=required))
    assert await wire.ask(modern(1, "resources/read")) == [
        failure(1, -32021, "needs sampling", required)
    ]


def every_client_method():
    return sorted(
        {
            spec.name
            for spec in METHODS
            if "client" in spec.senders
            and spec.kind.value == "request"
            and spec.extension is None
        }
        - {"initialize", "ping", "server/discover", "logging/setLevel"}
    )


@pytest.mark.system("O55")
@pytest.mark.rule("RPC-31", "LIFE-11")
@pytest.mark.parametrize("revision", REVISIONS, ids=str)
async def test_available_methods_match_the_method_table(revision):
    everything = {
        "tools": {},
        "resources": {"subscribe": True},
        "prompts": {},
        "completions": {},
        "tasks": {"list": {}, "cancel": {}},
    }
    called = []

    def handler(params, request):
        called.append(request.method)
        raise InvalidParams("enough")

    methods = every_client_method()
    with_all = server(dict.fromkeys(methods, handler), everything)
    version = revision.name if revision is not LATEST else None
    wire = Hand(with_all, version)
    ask = modern if version is None else request
    answers = await wire.ask(*(ask(method, method) for method in methods))
    found = {answer["id"] for answer in answers if answer["error"]["code"] == -32602}
    assert found == set(called)
    assert found == {m for m in methods if available_method(m, revision, "client")}


@pytest.mark.rule("TOOL-01", "RES-01", "PROMPT-01", "COMP-01")
@pytest.mark.parametrize(
    ("method", "reason"),
    [
        ("tools/list", "needs the capability 'tools'"),
        ("tools/call", "needs the capability 'tools'"),
        ("resources/list", "needs the capability 'resources'"),
        ("resources/read", "needs the capability 'resources'"),
        ("prompts/list", "needs the capability 'prompts'"),
        ("prompts/get", "needs the capability 'prompts'"),
        ("completion/complete", "needs the capability 'completions'"),
        ("resources/subscribe", r"needs the capability 'resources.subscribe'"),
        ("skills/list", "needs the capability 'io.modelcontextprotocol/skills'"),
        ("roots/list", "is not a request that a handler can answer"),
        ("notifications/initialized", "is not a request that a handler can answer"),
        ("initialize", "is not a request that a handler can answer"),
    ],
)
def test_unreachable_handler_is_refused(method, reason):
    with pytest.raises(ValueError, match=reason) as caught:
        server({method: lambda params, request: {}}, {"experimental": {}})
    assert repr(method) in str(caught.value)


async def test_custom_method_works_in_both_eras():
    wire = Hand(server({"acme/ping": lambda params, request: params}), "2025-11-25")
    assert await wire.ask(request(1, "acme/ping", {"a": 1})) == [success(1, {"a": 1})]
    [answer] = await wire.ask(modern(2, "acme/ping"))
    assert answer["result"]["resultType"] == "complete"


async def test_handler_can_override_a_built_in_method():
    wire = Hand(server({"ping": lambda params, request: {"a": 1}}), "2025-11-25")
    assert await wire.ask(request(1, "ping")) == [success(1, {"a": 1})]


@pytest.mark.rule("EXT-02")
async def test_extension_method_needs_the_extension_on_both_sides():
    capabilities = {"extensions": {TASKS: {}}}
    methods = {"tasks/cancel": lambda params, request: {}}
    wire = Hand(server(methods, capabilities), "2025-11-25")
    declared = {CAPABILITIES_KEY: {"extensions": {TASKS: {}}}}
    needed = {"requiredCapabilities": {"extensions": {TASKS: {}}}}
    reason = f"'tasks/cancel' needs the extension {TASKS!r}"
    unknown = "'tasks/cancel' is not a method of this server at 2025-11-25"
    assert await wire.ask(modern(1, "tasks/cancel", {"taskId": "t"}, **declared)) == [
        success(1, STAMP)
    ]
    assert await wire.ask(modern(2, "tasks/cancel", {"taskId": "t"})) == [
        failure(2, -32021, reason, needed)
    ]
    assert await wire.ask(request(3, "tasks/cancel")) == [failure(3, -32601, unknown)]


def test_server_without_revisions_is_refused():
    with pytest.raises(ValueError, match="at least one revision"):
        server(revisions=[])


def test_the_repr_is_one_line_with_the_name():
    assert repr(server()) == "<Dispatcher 'under-test'>"

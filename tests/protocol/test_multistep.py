"""Operations of several steps: input-required rounds, and the pages of a list."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scripted_steps import drive

from mcpwire.errors import (
    InternalError,
    InvalidMessage,
    InvalidParams,
    RemoteProtocolError,
    TooManyQuestions,
)
from mcpwire.limits import DEFAULT_LIMITS, Recovery
from mcpwire.protocol.methods import TASKS, methods_of
from mcpwire.protocol.multistep import (
    Call,
    HandleInput,
    Sleep,
    fetch_pages,
    is_task,
    next_cursor,
    result_kind,
    run_input_rounds,
)
from mcpwire.versions import LATEST, LATEST_SESSION

PARAMS = {"name": "resolve", "arguments": {"id": 4}, "_meta": {"progressToken": 1}}
DONE = {"resultType": "complete", "content": []}
ELICIT = {"method": "elicitation/create", "params": {"message": "Who?"}}
SAMPLE = {"method": "sampling/createMessage", "params": {"maxTokens": 5}}
ROOTS = {"method": "roots/list"}


def needs(requests=None, state=None, **members):
    result = {"resultType": "input_required", **members}
    if requests is not None:
        result["inputRequests"] = requests
    if state is not None:
        result["requestState"] = state
    return result


def rounds(first, *more, method="tools/call", params=PARAMS, **options):
    return drive(run_input_rounds(method, params, first, **options), *more)


def calls(steps):
    return [step.params for step in steps if type(step) is Call]


@pytest.mark.rule("RPC-17")
@pytest.mark.parametrize("result", [{"content": []}, {"resultType": None}, DONE, {}])
def test_an_absent_result_type_means_complete(result):
    assert result_kind(result) == "complete"


@pytest.mark.rule("RPC-18")
@pytest.mark.parametrize(
    ("kind", "got"),
    [
        *((kind, repr(kind)) for kind in ("partial", "", "Complete", "complete ")),
        *((1, "int"), (False, "bool"), ({}, "dict"), (["task"], "list")),
    ],
)
def test_an_unknown_result_type_is_an_invalid_response(kind, got):
    with pytest.raises(InvalidMessage) as caught:
        result_kind({"resultType": kind})

    known = "'complete' or 'input_required'" if isinstance(kind, str) else "str"
    assert caught.value.path == "Result.resultType"
    assert (caught.value.expected, caught.value.got) == (known, got)
    assert caught.value.hint is None


def test_a_long_result_type_is_shortened_in_the_error():
    with pytest.raises(InvalidMessage) as caught:
        result_kind({"resultType": "x" * 100_000})

    assert len(str(caught.value)) < 200


@pytest.mark.rule("RPC-19")
def test_extension_result_type_is_known_only_with_the_extension():
    task = {"resultType": "task", "taskId": "t"}

    assert result_kind(task, {TASKS}) == "task"
    with pytest.raises(InvalidMessage) as caught:
        result_kind(task, {"com.example/other"})
    assert TASKS in caught.value.hint
    with pytest.raises(InvalidMessage) as caught:
        result_kind({"resultType": "tusk"}, {TASKS})
    assert caught.value.expected == "'complete' or 'input_required' or 'task'"


@pytest.mark.parametrize("result", [DONE, {"content": []}])
def test_final_result_ends_the_operation_without_steps(result):
    assert rounds(result) == ([], result)


@pytest.mark.system("U31")
@pytest.mark.rule("MRTR-12", "MRTR-14", "MRTR-16")
def test_answers_are_sent_under_their_keys_with_the_original_params():
    requests = {"who": ELICIT, "text": SAMPLE, "where": ROOTS}

    steps, result = rounds(needs(requests), DONE)

    assert steps == [
        HandleInput("who", "elicitation/create", {"message": "Who?"}),
        HandleInput("text", "sampling/createMessage", {"maxTokens": 5}),
        HandleInput("where", "roots/list", None),
        Call(
            "tools/call",
            {
                **PARAMS,
                "inputResponses": {
                    "who": {"answer to": "who"},
                    "text": {"answer to": "text"},
                    "where": {"answer to": "where"},
                },
            },
        ),
    ]
    assert result is DONE


@pytest.mark.system("U31")
@pytest.mark.rule("MRTR-13")
@pytest.mark.parametrize("requests", [{"who": ELICIT}, None])
@pytest.mark.parametrize(
    "state", ["", " x ", "v1.é\u2028\x00", '{"a": 1.0}', "=" * 5_000]
)
def test_request_state_is_sent_back_unchanged(requests, state):
    steps, _ = rounds(needs(requests, state), DONE)

    (sent,) = calls(steps)
    assert sent["requestState"] == state
    assert ("inputResponses" in sent) == (requests is not None)


@pytest.mark.rule("MRTR-13", "MRTR-16")
def test_answers_and_state_of_earlier_rounds_are_not_sent_again():
    steps, _ = rounds(
        needs({"a": ELICIT}, "s1"), needs({"b": ELICIT}), needs(None, "s3"), DONE
    )

    assert calls(steps) == [
        {**PARAMS, "inputResponses": {"a": {"answer to": "a"}}, "requestState": "s1"},
        {**PARAMS, "inputResponses": {"b": {"answer to": "b"}}},
        {**PARAMS, "requestState": "s3"},
    ]


@pytest.mark.rule("MRTR-16")
def test_input_members_in_the_caller_params_are_not_repeated():
    params = {"name": "a", "inputResponses": {"old": {}}, "requestState": "old"}

    steps, _ = rounds(needs({"new": ELICIT}), DONE, params=params)

    assert calls(steps) == [
        {"name": "a", "inputResponses": {"new": {"answer to": "new"}}}
    ]
    assert params["requestState"] == "old"


@pytest.mark.rule("MRTR-16")
@given(
    st.lists(
        st.dictionaries(
            st.text(max_size=5), st.sampled_from([ELICIT, SAMPLE, ROOTS]), max_size=4
        ),
        max_size=5,
    )
)
def test_every_round_is_answered_under_its_own_keys(script):
    results = [needs(requests, f"s{n}") for n, requests in enumerate(script)]

    steps, result = rounds(*results, DONE)

    assert [set(sent.get("inputResponses", {})) for sent in calls(steps)] == [
        set(requests) for requests in script
    ]
    assert [sent["requestState"] for sent in calls(steps)] == [
        f"s{n}" for n in range(len(script))
    ]
    assert result is DONE


@pytest.mark.rule("MRTR-15")
def test_parallel_calls_never_mix_answers_or_state():
    one = run_input_rounds(
        "tools/call", {"name": "one"}, needs({"k": ELICIT}, "state 1")
    )
    two = run_input_rounds("tools/call", {"name": "two"}, needs({"k": ELICIT}))

    next(one)
    next(two)
    sent_two = two.send({"action": "decline"})
    sent_one = one.send({"action": "accept"})

    assert sent_one.params == {
        "name": "one",
        "inputResponses": {"k": {"action": "accept"}},
        "requestState": "state 1",
    }
    assert sent_two.params == {
        "name": "two",
        "inputResponses": {"k": {"action": "decline"}},
    }


@pytest.mark.rule("MRTR-12")
def test_failing_handler_ends_the_call_without_a_retry():
    class Declined(Exception):
        pass

    operation = run_input_rounds(
        "tools/call", PARAMS, needs({"a": SAMPLE, "b": ELICIT})
    )
    next(operation)

    with pytest.raises(Declined):
        operation.throw(Declined)


@pytest.mark.rule("MRTR-21")
def test_rounds_without_requests_back_off():
    recovery = Recovery(backoff_initial=1.0, backoff_max=5.0)

    steps, _ = rounds(*[needs(None, "s")] * 6, DONE, recovery=recovery)

    delays = [step.seconds for step in steps if type(step) is Sleep]
    assert [type(step) for step in steps[:3]] == [Call, Sleep, Call]
    assert delays == [1.0, 2.0, 4.0, 5.0, 5.0]


def test_input_request_resets_the_backoff():
    script = [needs(None, "s"), needs({"a": ELICIT}), needs(None, "s"), DONE]

    steps, _ = rounds(*script)

    assert Sleep not in [type(step) for step in steps]


def test_empty_requests_with_a_state_count_as_no_requests():
    steps, _ = rounds(needs({}, "s"), needs({}, "s"), DONE)

    assert [type(step) for step in steps] == [Call, Sleep, Call]
    assert calls(steps) == [{**PARAMS, "requestState": "s"}] * 2


def test_empty_requests_alone_are_a_round():
    steps, _ = rounds(needs({}), DONE)

    assert calls(steps) == [PARAMS]


@pytest.mark.rule("MRTR-21")
def test_rounds_of_one_call_are_limited():
    script = [needs({"a": ELICIT}, f"s{n}") for n in range(50)]

    with pytest.raises(RemoteProtocolError, match="after 10 rounds") as caught:
        rounds(*script)

    assert "Limits.input_rounds" in caught.value.hint
    assert DEFAULT_LIMITS.input_rounds == 10


@pytest.mark.rule("MRTR-21")
def test_number_of_rounds_may_reach_the_limit():
    script = [needs({"a": ELICIT})] * 3

    assert rounds(*script, DONE, max_rounds=3)[1] is DONE
    with pytest.raises(RemoteProtocolError, match="after 2 rounds"):
        rounds(*script, DONE, max_rounds=2)


@pytest.mark.attack("X08")
def test_input_requests_of_all_rounds_are_limited():
    script = [needs({"a": ELICIT, "b": ELICIT})] * 3

    assert rounds(*script[:2], DONE, max_requests=4)[1] is DONE
    with pytest.raises(TooManyQuestions, match="more than 5 requests"):
        rounds(*script, DONE, max_requests=5)


def test_only_three_methods_may_require_input():
    methods = {"tools/call", "prompts/get", "resources/read"}
    every = {spec.name for spec in methods_of(LATEST, "client", {TASKS})}

    for method in sorted(every | {"vendor/x"}):
        if method in methods:
            assert rounds(needs(None, "s"), DONE, method=method)[1] is DONE
        else:
            with pytest.raises(RemoteProtocolError, match="does not allow") as caught:
                rounds(needs(None, "s"), DONE, method=method)
            assert method in str(caught.value)
            assert not isinstance(caught.value, InvalidMessage)


PATH = "InputRequiredResult"


@pytest.mark.parametrize(
    ("result", "path", "expected", "got"),
    [
        (needs(), PATH, "inputRequests or requestState", "neither"),
        (needs(None, 7), f"{PATH}.requestState", "str", "int"),
        (needs({"a": ELICIT}, ["s"]), f"{PATH}.requestState", "str", "list"),
        (needs([ELICIT]), f"{PATH}.inputRequests", "object", "list"),
        (needs({"a": 1}), f"{PATH}.inputRequests['a']", "object", "int"),
        (needs({"a": {}}), f"{PATH}.inputRequests['a'].method", "str", "NoneType"),
        (
            needs({"a": {"method": "notifications/message"}}),
            f"{PATH}.inputRequests['a'].method",
            "elicitation/create, sampling/createMessage or roots/list",
            "'notifications/message'",
        ),
        (
            needs({"a": {"method": "elicitation/create"}}),
            f"{PATH}.inputRequests['a'].params",
            "object",
            "NoneType",
        ),
        (
            needs({"a": {"method": "roots/list", "params": []}}),
            f"{PATH}.inputRequests['a'].params",
            "object",
            "list",
        ),
    ],
)
def test_a_malformed_round_is_refused_with_its_path(result, path, expected, got):
    with pytest.raises(InvalidMessage) as caught:
        rounds(result, DONE)

    assert (caught.value.path, caught.value.expected) == (path, expected)
    assert caught.value.got == got


def test_whole_round_is_checked_before_any_handler_runs():
    operation = run_input_rounds(
        "tools/call", PARAMS, needs({"good": ELICIT, "bad": {"method": "x"}})
    )

    with pytest.raises(InvalidMessage):
        next(operation)


def test_input_request_with_jsonrpc_members_is_accepted():
    question = {"jsonrpc": "2.0", "id": 1, **ROOTS, "params": {"_meta": {}}}

    steps, _ = rounds(needs({"a": question}), DONE)

    assert steps[0] == HandleInput("a", "roots/list", {"_meta": {}})


@pytest.mark.rule("RPC-19")
def test_round_may_end_with_a_task_if_the_extension_is_enabled():
    task = {"resultType": "task", "taskId": "t"}

    assert rounds(needs({"a": ELICIT}), task, extensions={TASKS})[1] is task
    with pytest.raises(InvalidMessage, match="'task'"):
        rounds(needs({"a": ELICIT}), task)


@pytest.mark.rule("TX-03", "TX-22")
def test_task_result_is_recognised_only_in_the_stateless_era():
    task = {"resultType": "task", "taskId": "t"}

    assert is_task(task, LATEST)
    assert not is_task(task, LATEST_SESSION)
    assert not is_task(DONE, LATEST)


@pytest.mark.rule("TX-03")
@pytest.mark.parametrize("method", ["prompts/get", "tasks/get", "vendor/x"])
def test_only_a_tool_call_becomes_a_task(method):
    task = {"resultType": "task", "taskId": "t"}

    with pytest.raises(InvalidMessage) as caught:
        rounds(task, method=method, extensions={TASKS})

    assert caught.value.got == f"'task' for {method}"


@pytest.mark.parametrize("kind", ["input_required", "task", "anything", 7])
def test_result_type_is_ignored_in_the_session_era(kind):
    result = {"resultType": kind, "content": []}

    assert rounds(result, revision=LATEST_SESSION) == ([], result)


# Fetching all pages of a list: opaque cursors, and a limit for endless lists...


def page(*names, **members):
    return {"tools": [{"name": name} for name in names], **members}


def fetch(*outcomes, method="tools/list", params=(), **options):
    steps, found = drive(fetch_pages(method, dict(params), **options), *outcomes)
    return [step.params for step in steps], found


@pytest.mark.rule("PAGE-03")
def test_null_cursor_ends_the_list():
    assert len(fetch(page("a", nextCursor=None))[1]) == 1


@pytest.mark.rule("PAGE-01", "PAGE-02", "PAGE-03", "PAGE-05")
@pytest.mark.pain("P38")
@example({"": "", "1": "abc"})
@given(st.dictionaries(st.text(max_size=20), st.text("ab", max_size=3), max_size=8))
def test_pages_come_in_order_and_cursors_are_sent_back_unchanged(pages):
    script = [*(page(*names, nextCursor=cursor) for cursor, names in pages.items())]
    script.append(page("y", "z"))
    assert fetch(*script) == ([{}, *({"cursor": each} for each in pages)], script)


def test_other_params_are_sent_with_every_page():
    params = {"uri": "skill://a", "_meta": {"x": 1}}
    script = [page("a", nextCursor="1"), page("b")]
    sent, _ = fetch(*script, method="resources/directory/read", params=params)
    assert sent == [params, {**params, "cursor": "1"}]
    assert params == {"uri": "skill://a", "_meta": {"x": 1}}


def test_params_changed_for_one_page_are_not_sent_with_the_next():
    operation = fetch_pages("tools/list", {})
    first = next(operation)
    first.params["_meta"] = {"stamp": 1}
    assert operation.send(page(nextCursor="1")).params == {"cursor": "1"}


@pytest.mark.fault("F48")
@pytest.mark.parametrize(
    ("start", "cursors"),
    [
        *(({}, ["1", "1"]), ({}, ["1", "2", "1"]), ({}, ["", ""])),
        *(({"cursor": "1"}, ["1"]), ({}, ["c" * 100_000] * 2)),
    ],
)
def test_repeated_cursor_is_a_protocol_error(start, cursors):
    with pytest.raises(RemoteProtocolError, match="is repeated") as caught:
        fetch(*(page("a", nextCursor=cursor) for cursor in cursors), params=start)
    assert repr(cursors[-1])[:20] in str(caught.value)
    assert len(str(caught.value)) < 250


@pytest.mark.fault("F48")
@pytest.mark.pain("P38")
def test_number_of_pages_may_reach_the_limit():
    script = [page(nextCursor="1"), page(nextCursor="2"), page()]
    assert fetch(*script, limit=3)[1] == script
    with pytest.raises(RemoteProtocolError, match="more than 2 pages") as caught:
        fetch(*script, limit=2)
    assert "Limits.pages" in caught.value.hint


@pytest.mark.parametrize(("cursor", "got"), [(7, "int"), (["a"], "list")])
def test_cursor_of_another_type_is_refused(cursor, got):
    with pytest.raises(InvalidMessage) as caught:
        fetch(page("a", nextCursor=cursor))
    assert caught.value.path == "ListToolsResult.nextCursor"
    assert caught.value.expected == "str"
    assert caught.value.got == got


def test_cursor_of_an_unknown_list_method_is_checked():
    with pytest.raises(InvalidMessage) as caught:
        next_cursor("vendor/list", {"nextCursor": 1})

    assert caught.value.path == "PaginatedResult.nextCursor"


@pytest.mark.rule("PAGE-04")
@pytest.mark.fault("F48")
def test_refused_cursor_restarts_the_list():
    pages = [page("a", nextCursor="1"), page("b")]
    refusal = InvalidParams("unknown cursor")
    sent, found = fetch(page("old", nextCursor="1"), refusal, *pages)
    assert found == pages
    assert sent == [{}, {"cursor": "1"}, {}, {"cursor": "1"}]


def test_list_is_restarted_only_once():
    first = page("a", nextCursor="1")
    with pytest.raises(InvalidParams, match="second"):
        fetch(first, InvalidParams("first"), first, InvalidParams("second"))


def test_refused_params_of_the_first_page_are_raised():
    with pytest.raises(InvalidParams, match="no such list"):
        fetch(InvalidParams("no such list"))


def test_other_errors_are_raised_at_once():
    with pytest.raises(InternalError):
        fetch(page("a", nextCursor="1"), InternalError("down"))

"""When the conformance driver calls a scenario green, and why it does not."""

import pytest

PINS = ["one", "two"]


def check(id, status="SUCCESS", name=None, **more):
    return {"id": id, "name": name or id.title(), "status": status, **more}


GREEN = [check("one"), check("two"), check("a-request", "INFO")]


@pytest.fixture
def verdict(driver):
    return driver("verdict")


@pytest.fixture
def judged(verdict):
    def judged(checks=GREEN, pins=PINS, scenario="some", **more):
        facts = {
            "seconds": 1.0,
            "suite_exit": 0,
            "client_exit": 0,
            "client_ended": True,
        }
        run = verdict.Run(scenario=scenario, checks=checks, **(facts | more))
        return verdict.judge(run, pins)

    return judged


def test_a_run_whose_pinned_checks_succeed_is_green(judged):
    assert judged() == []


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"suite_exit": None}, "did not end within 1 s and was killed"),
        ({"suite_exit": 1}, "the suite ended with exit code 1"),
        ({"client_exit": 3}, "the client ended early, with exit code 3"),
        ({"client_ended": False}, "the client ended early, with exit code 0"),
        (
            {"client_timed_out": True, "client_ended": False, "suite_exit": 1},
            "the client did not end in time",
        ),
    ],
)
def test_a_process_that_went_wrong_is_red_whatever_the_checks_say(
    judged, facts, reason
):
    assert judged(**facts) == [reason]


def test_an_exit_code_that_the_suite_allows_a_client_is_red(judged):
    red = judged(suite_exit=0, client_exit=1, client_ended=False)
    assert red == ["the client ended early, with exit code 1"]


@pytest.mark.parametrize("checks", [None, [], [check("a-request", "INFO")]])
def test_a_scenario_with_no_checks_is_red_even_where_none_are_pinned(judged, checks):
    assert judged(checks, pins=[]) == ["nothing was checked"]


@pytest.mark.parametrize("status", ["FAILURE", "WARNING", "SKIPPED", "NEW"])
def test_whatever_is_no_success_is_red_beside_those_that_succeed(judged, status):
    bad = check("three", status, errorMessage="why" * 1000)
    (reason,) = judged([*GREEN, bad])
    assert reason.startswith(f"{status} three (Three): whywhy")
    assert len(reason) < 400


def test_a_check_without_a_message_is_told_by_its_description(judged):
    warned = check("three", "WARNING", description="should not")
    assert judged([*GREEN, warned]) == ["WARNING three (Three): should not"]


def test_only_what_is_listed_may_be_skipped_and_only_in_its_scenario(judged, verdict):
    assert verdict.MAY_BE_SKIPPED
    for scenario, name in verdict.MAY_BE_SKIPPED:
        skipped = [*GREEN, check("three", "SKIPPED", name)]
        assert judged(skipped, scenario=scenario) == []
        (reason,) = judged(skipped, scenario="another")
        assert reason.startswith("SKIPPED three")


def test_skipped_checks_alone_are_no_success(judged, verdict):
    scenario, name = next(iter(verdict.MAY_BE_SKIPPED))
    red = judged([check("one", "SKIPPED", name)], scenario=scenario)
    assert red == ["no check succeeded", "pinned, but no success: one, two"]


def test_nothing_but_what_the_suite_never_makes_is_green_without_a_success(
    judged, verdict
):
    for scenario in verdict.WITHOUT_CHECKS:
        (name,) = (name for where, name in verdict.MAY_BE_SKIPPED if where == scenario)
        skipped = [check("one", "SKIPPED", name)]
        assert judged(skipped, pins=[], scenario=scenario) == []
        assert judged([*skipped, check("two")], pins=[], scenario=scenario) == [
            "a success, but not pinned: two"
        ]


def test_a_pinned_check_that_is_no_longer_made_is_red(judged):
    assert judged([check("one")]) == ["pinned, but no success: two"]


def test_a_check_that_is_not_pinned_yet_is_red(judged):
    assert judged([*GREEN, check("new")]) == ["a success, but not pinned: new"]


def test_a_scenario_without_pins_is_red(judged):
    assert judged(pins=None) == ["no checks are pinned for it"]


def test_checks_that_share_an_id_are_pinned_by_name_and_so_missed_one_by_one(
    judged, verdict
):
    checks = [check("head", name="Post"), check("head", name="Get"), check("one")]
    pins = verdict.successful_checks(checks)
    assert pins == ["head Get", "head Post", "one"]
    assert judged(checks, pins) == []
    assert judged(checks[1:], pins) == [
        "pinned, but no success: head Get, head Post",
        "a success, but not pinned: head",
    ]


def test_how_often_a_check_succeeds_does_not_matter(judged):
    assert judged([*GREEN, check("one"), check("one")]) == []


# --- servers -------------------------------------------------------------------------


@pytest.fixture
def stood(verdict):
    def stood(played=("a",), pinned=("a", "b"), **more):
        facts = {
            "is_up": True,
            "suite_exit": 0,
            "server_exit": 0,
            "server_output": "bound",
        }
        return verdict.judge_server_run(
            verdict.ServerRun(**(facts | more)), played, pinned
        )

    return stood


def test_a_server_that_stood_its_leg_and_ended_as_told_is_green(stood):
    assert stood() == []


@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        ({"is_up": False, "server_exit": 3}, "the server did not start (exit code 3)"),
        ({"suite_exit": None}, "the suite did not end in time and was killed"),
        ({"suite_exit": 1}, "the suite ended with exit code 1"),
        ({"server_exit": None}, "the server did not end when it was told to"),
        ({"server_exit": -15}, "the server ended with exit code -15"),
        (
            {"server_output": "x\nTraceback (most recent call last):\n"},
            "the server wrote a traceback",
        ),
        ({"played": ["a", "c"]}, "run, but no checks are pinned for it: c"),
    ],
)
def test_a_server_that_did_not_is_red_whatever_its_scenarios_say(stood, facts, reason):
    assert stood(**facts) == [reason]


@pytest.mark.parametrize(
    ("checks", "passes"),
    [
        (GREEN, True),
        ([check("one", "WARNING")], True),
        ([check("one", "SKIPPED")], True),
        ([], True),
        ([check("one", "FAILURE")], False),
    ],
)
def test_the_suite_itself_calls_nothing_but_a_failure_red(verdict, checks, passes):
    run = verdict.Run(scenario="some", checks=checks)
    assert verdict.suite_passes(run) is passes

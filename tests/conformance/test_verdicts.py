"""The verdicts of the conformance driver, with the reasons for red."""

import pytest

PINS = ["one", "two"]


def check(id, status="SUCCESS", name=None, **more):
    return {"id": id, "name": name or id.title(), "status": status, **more}


GREEN = [check("one"), check("two"), check("a-request", "INFO")]


@pytest.fixture
def verdict(driver):
    return driver("verdict")


@pytest.fixture
def judge(verdict):
    def judge(checks=GREEN, pins=PINS, scenario="some", **more):
        facts = {
            "seconds": 1.0,
            "suite_exit": 0,
            "client_exit": 0,
            "client_ended": True,
        }
        run = verdict.Run(scenario=scenario, checks=checks, **(facts | more))
        return verdict.judge(run, pins)

    return judge


def test_run_whose_pinned_checks_succeed_is_green(judge):
    assert judge() == []


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
def test_process_failure_is_red_whatever_the_checks_are(judge, facts, reason):
    assert judge(**facts) == [reason]


def test_client_exit_code_is_red_even_if_the_suite_allows_it(judge):
    red = judge(suite_exit=0, client_exit=1, client_ended=False)
    assert red == ["the client ended early, with exit code 1"]


@pytest.mark.parametrize("checks", [None, [], [check("a-request", "INFO")]])
def test_scenario_without_checks_is_red_even_without_pins(judge, checks):
    assert judge(checks, pins=[]) == ["nothing was checked"]


@pytest.mark.parametrize("status", ["FAILURE", "WARNING", "SKIPPED", "NEW"])
def test_any_unsuccessful_check_makes_the_scenario_red(judge, status):
    bad = check("three", status, errorMessage="why" * 1000)
    (reason,) = judge([*GREEN, bad])
    assert reason.startswith(f"{status} three (Three): whywhy")
    assert len(reason) < 400


def test_check_without_a_message_is_reported_by_its_description(judge):
    warned = check("three", "WARNING", description="should not")
    assert judge([*GREEN, warned]) == ["WARNING three (Three): should not"]


def test_only_listed_checks_may_be_skipped_in_their_scenario(judge, verdict):
    assert verdict.MAY_BE_SKIPPED
    for scenario, name in verdict.MAY_BE_SKIPPED:
        skipped = [*GREEN, check("three", "SKIPPED", name)]
        assert judge(skipped, scenario=scenario) == []
        (reason,) = judge(skipped, scenario="another")
        assert reason.startswith("SKIPPED three")


def test_skipped_checks_alone_are_red(judge, verdict):
    scenario, name = next(iter(verdict.MAY_BE_SKIPPED))
    red = judge([check("one", "SKIPPED", name)], scenario=scenario)
    assert red == ["no check succeeded", "pinned, but no success: one, two"]


def test_only_listed_scenarios_are_green_without_a_success(judge, verdict):
    for scenario in verdict.WITHOUT_CHECKS:
        (name,) = (name for where, name in verdict.MAY_BE_SKIPPED if where == scenario)
        skipped = [check("one", "SKIPPED", name)]
        assert judge(skipped, pins=[], scenario=scenario) == []
        assert judge([*skipped, check("two")], pins=[], scenario=scenario) == [
            "a success, but not pinned: two"
        ]


def test_missing_pinned_check_is_red(judge):
    assert judge([check("one")]) == ["pinned, but no success: two"]


def test_unpinned_check_is_red(judge):
    assert judge([*GREEN, check("new")]) == ["a success, but not pinned: new"]


def test_scenario_without_pins_is_red(judge):
    assert judge(pins=None) == ["no checks are pinned for it"]


def test_checks_with_a_shared_id_are_pinned_by_name(judge, verdict):
    checks = [check("head", name="Post"), check("head", name="Get"), check("one")]
    pins = verdict.successful_checks(checks)
    assert pins == ["head Get", "head Post", "one"]
    assert judge(checks, pins) == []
    assert judge(checks[1:], pins) == [
        "pinned, but no success: head Get, head Post",
        "a success, but not pinned: head",
    ]


def test_repeated_successes_of_a_check_do_not_matter(judge):
    assert judge([*GREEN, check("one"), check("one")]) == []


@pytest.fixture
def judge_server(verdict):
    def judge_server(played=("a",), pinned=("a", "b"), **more):
        facts = {
            "is_up": True,
            "suite_exit": 0,
            "server_exit": 0,
            "server_output": "bound",
        }
        return verdict.judge_server_run(
            verdict.ServerRun(**(facts | more)), played, pinned
        )

    return judge_server


def test_server_run_with_a_clean_exit_is_green(judge_server):
    assert judge_server() == []


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
def test_failed_server_run_is_red_with_its_reason(judge_server, facts, reason):
    assert judge_server(**facts) == [reason]


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
def test_only_a_failure_is_red_for_the_suite_itself(verdict, checks, passes):
    run = verdict.Run(scenario="some", checks=checks)
    assert verdict.suite_passes(run) is passes

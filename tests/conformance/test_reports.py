"""What the driver prints and keeps: scores, reasons, JSON and the table."""

import json

import pytest


@pytest.fixture
def report(driver):
    return driver("report")


@pytest.fixture
def leg(driver):
    return driver("legs").LEGS[0]


@pytest.fixture
def done(driver, report, leg):
    """Return a function from (scenario, reasons) to the result of a leg."""

    def done(*outcomes, **more):
        results = [
            report.Result(
                run=driver("verdict").Run(
                    scenario=scenario,
                    seconds=1.25,
                    checks=[{"id": "one", "name": "One", "status": "SUCCESS"}],
                    suite_exit=0,
                    client_exit=0,
                    client_ended=True,
                    output="said",
                ),
                failures=failures,
            )
            for scenario, failures in outcomes
        ]
        return report.LegResult(leg=leg, results=results, seconds=3.2, **more)

    return done


@pytest.mark.parametrize(
    ("outcomes", "is_green", "score"),
    [
        ([], False, "0/0"),
        ([("a", [])], True, "1/1"),
        ([("a", []), ("b", ["why"])], False, "1/2"),
    ],
)
def test_a_leg_is_green_if_there_is_something_and_nothing_of_it_is_red(
    report, done, outcomes, is_green, score
):
    leg = done(*outcomes)
    assert leg.is_green is is_green
    line = report.leg_text(leg, verbose=False).splitlines()[0]
    assert line.split()[:4] == ["C1", score, "3", "s"]


def test_what_is_red_is_told_with_its_reasons_and_what_was_written(report, done):
    text = report.leg_text(done(("a", ["why"])), verbose=False)
    assert text.splitlines()[1:] == ["    C1 a (1.2 s)", "      why", "      | said"]


def test_what_is_green_is_told_on_request_only(report, done):
    leg = done(("a", []))
    assert len(report.leg_text(leg, verbose=False).splitlines()) == 1
    assert "C1 a (1.2 s)" in report.leg_text(leg, verbose=True)


def test_a_leg_is_red_for_what_its_server_did_whatever_its_scenarios_are(report, done):
    leg = done(
        ("a", []),
        failures=["the server wrote a traceback"],
        server_output="Traceback\n",
    )
    assert not leg.is_green
    assert report.leg_text(leg, verbose=False).splitlines()[1:] == [
        "    C1: the server wrote a traceback",
        "      | Traceback",
    ]


def test_what_a_server_wrote_is_told_on_request_only(report, done):
    leg = done(("a", []), server_output="bound")
    assert "bound" not in report.leg_text(leg, verbose=False)
    assert "      | bound" in report.leg_text(leg, verbose=True)


def test_a_scenario_of_a_server_has_no_time_of_its_own(driver, report, leg):
    run = driver("verdict").Run(scenario="a", checks=[])
    assert report.format_failures(leg, run, ["why"]).splitlines() == [
        "    C1 a",
        "      why",
    ]


def test_how_many_scenarios_another_leg_has_run_is_told_and_counted(report, done):
    leg = done(("a", []), ("b", []), shared=2)
    assert report.leg_text(leg, verbose=False).endswith("(2 run before)")
    assert "| 2 of 2 | 2 | 2 of 2 | 3 |" in report.table([leg])


def test_what_doing_nothing_is_worth_is_told_by_the_suites_verdict_and_ours(
    report, done
):
    text = report.control_text([done(("a", ["why"]), ("b", []))])
    assert text == "C1: 2 of 2 pass by the suite's own verdict, 1 by ours"


def test_the_json_holds_every_check_of_every_run(report, done, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "JSON", tmp_path / "build" / "all.json")
    report.write_json([done(("a", ["why"]))])
    (leg,) = json.loads(report.JSON.read_text())
    (scenario,) = leg["scenarios"]
    assert (leg["leg"], leg["passed"], leg["total"]) == ("C1", 0, 1)
    assert scenario["red"] == ["why"]
    assert scenario["checks"] == [{"id": "one", "name": "One", "status": "SUCCESS"}]


def test_the_table_replaces_the_one_that_stood_between_its_marks(
    report, done, tmp_path, monkeypatch
):
    readme = tmp_path / "README.md"
    readme.write_text(f"before\n{report.BEGIN}\nold\n{report.END}\nafter\n")
    monkeypatch.setattr(report, "README", readme)
    report.write_table([done(("a", []))])
    text = readme.read_text()
    assert (
        "| C1 | client | 0.2.0-alpha.12 | everything at 2025-03-26 | 1 of 1 |  |"
        in text
    )
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text

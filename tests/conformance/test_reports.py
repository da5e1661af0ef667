"""The output of the driver: scores, reasons, JSON and the table."""

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
def test_leg_is_green_if_it_has_scenarios_and_all_are_green(
    report, done, outcomes, is_green, score
):
    leg = done(*outcomes)
    assert leg.is_green is is_green
    line = report.leg_text(leg, verbose=False).splitlines()[0]
    assert line.split()[:4] == ["C1", score, "3", "s"]


def test_red_scenario_is_printed_with_reasons_and_output(report, done):
    text = report.leg_text(done(("a", ["why"])), verbose=False)
    assert text.splitlines()[1:] == ["    C1 a (1.2 s)", "      why", "      | said"]


def test_green_scenario_is_printed_only_if_verbose(report, done):
    leg = done(("a", []))
    assert len(report.leg_text(leg, verbose=False).splitlines()) == 1
    assert "C1 a (1.2 s)" in report.leg_text(leg, verbose=True)


def test_server_failure_makes_the_leg_red(report, done):
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


def test_server_output_is_printed_only_if_verbose(report, done):
    leg = done(("a", []), server_output="bound")
    assert "bound" not in report.leg_text(leg, verbose=False)
    assert "      | bound" in report.leg_text(leg, verbose=True)


def test_server_scenario_has_no_duration(driver, report, leg):
    run = driver("verdict").Run(scenario="a", checks=[])
    assert report.format_failures(leg, run, ["why"]).splitlines() == [
        "    C1 a",
        "      why",
    ]


def test_shared_scenarios_are_reported_and_counted(report, done):
    leg = done(("a", []), ("b", []), shared=2)
    assert report.leg_text(leg, verbose=False).endswith("(2 run before)")
    assert "| 2 of 2 | 2 | 2 of 2 | 3 |" in report.table([leg])


def test_control_text_compares_the_suite_verdict_with_ours(report, done):
    text = report.control_text([done(("a", ["why"]), ("b", []))])
    assert text == "C1: 2 of 2 pass by the suite's own verdict, 1 by ours"


def test_json_contains_every_check_of_every_run(report, done, tmp_path, monkeypatch):
    monkeypatch.setattr(report, "JSON", tmp_path / "build" / "all.json")
    report.write_json([done(("a", ["why"]))])
    (leg,) = json.loads(report.JSON.read_text())
    (scenario,) = leg["scenarios"]
    assert (leg["leg"], leg["passed"], leg["total"]) == ("C1", 0, 1)
    assert scenario["red"] == ["why"]
    assert scenario["checks"] == [{"id": "one", "name": "One", "status": "SUCCESS"}]


def test_table_replaces_the_text_between_its_marks(report, done, tmp_path, monkeypatch):
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

"""The legs of the official suite: how many scenarios, with which pins and options."""

import json
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[2] / "conformance"
SIZES = {
    "C1": 2,
    "C2": 5,
    "C3": 19,
    "C4": 33,
    "C5": 48,
    "C6": 10,
    "R1": 18,
    "R2": 32,
    "O1": 26,
    "O2": 5,
}

LISTING = """Client scenarios (test against a client):
  - tools_call [2025-06-18,2025-11-25]
  - auth/dpop [extension]
"""
REQUIREMENTS = """Required for 2025-11-25 (4 scenarios, frozen; run at its wire):

Server scenarios (test against a server):
  - ping

Client scenarios (test against a client):
  - initialize
  - tools_call

Run and reported, but never scored:
  extension (1):
    - auth/dpop [client]
"""


@pytest.fixture
def legs(driver):
    return driver("legs")


def test_every_scenario_of_every_leg_has_its_place_in_the_pins(legs):
    assert {leg.name: len(leg.pinned()) for leg in legs.LEGS} == SIZES


def test_there_is_a_file_of_pins_for_each_leg_and_no_other(legs):
    assert set(legs.EXPECTED.glob("*")) == {leg.pins for leg in legs.LEGS}


def test_pins_belong_to_the_versions_that_are_installed(legs):
    pinned = json.loads((FOLDER / "package.json").read_text())["dependencies"]
    lock = json.loads((FOLDER / "package-lock.json").read_text())["packages"]
    for suite in {leg.suite for leg in legs.LEGS}:
        assert pinned[suite.alias] == (
            f"npm:@modelcontextprotocol/conformance@{suite.version}"
        )
        assert lock[f"node_modules/{suite.alias}"]["version"] == suite.version


def test_a_listing_is_read_whole_or_for_its_extensions(legs):
    assert legs.scenarios_in(LISTING) == ["tools_call", "auth/dpop"]
    assert legs.scenarios_in(LISTING, only_extensions=True) == ["auth/dpop"]


def test_of_a_requirement_set_only_what_a_client_is_scored_by_counts(legs):
    assert legs.scenarios_in(REQUIREMENTS) == ["initialize", "tools_call"]


def test_the_client_plays_every_scenario_of_every_leg(legs):
    source = (FOLDER / "client.py").read_text()
    for leg in legs.LEGS:
        for scenario in leg.pinned():
            assert f'"{scenario}"' in source, scenario


def test_the_table_in_the_readme_counts_the_scenarios_of_each_leg(driver, legs):
    report = driver("report")
    text = report.README.read_text()
    rows = text.partition(report.BEGIN)[2].partition(report.END)[0].splitlines()
    for leg in legs.LEGS:
        start = f"| {leg.name} | {leg.suite.version} | {leg.says} |"
        (row,) = (row for row in rows if row.startswith(start))
        assert f" of {len(leg.pinned())} |" in row

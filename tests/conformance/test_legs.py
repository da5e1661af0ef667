"""The legs of the official suite: their scenarios, pins and options."""

import ast
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
    "S1": 1,
    "S2": 27,
    "S3": 33,
    "S4": 40,
    "S5": 65,
    "R3": 30,
    "R4": 37,
    "O3": 32,
    "O4": 26,
    "G1": 33,
    "G2": 40,
    "G3": 27,
    "G4": 40,
}

LISTING = """Client scenarios (test against a client):
  - tools_call [2025-06-18,2025-11-25]
  - auth/dpop [extension]
"""
BOTH = """Server scenarios (test against a server):
  - ping [2025-06-18,2025-11-25]
  - tasks-lifecycle [extension]
Client scenarios (test against a client):
  - tools_call [2025-06-18,2025-11-25]
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


def test_every_leg_pins_its_number_of_scenarios(legs):
    assert {leg.name: len(leg.pinned()) for leg in legs.LEGS} == SIZES


def test_pin_files_exist_for_exactly_the_legs(legs):
    assert set(legs.EXPECTED.glob("*")) == {leg.pins for leg in legs.LEGS}


def test_pinned_suite_versions_are_those_of_the_lock_file(legs):
    pinned = json.loads((FOLDER / "package.json").read_text())["dependencies"]
    lock = json.loads((FOLDER / "package-lock.json").read_text())["packages"]
    for suite in {leg.suite for leg in legs.LEGS}:
        assert pinned[suite.alias] == (
            f"npm:@modelcontextprotocol/conformance@{suite.version}"
        )
        assert lock[f"node_modules/{suite.alias}"]["version"] == suite.version


@pytest.fixture
def leg(legs):
    return lambda name: next(leg for leg in legs.LEGS if leg.name == name)


@pytest.mark.parametrize(
    ("name", "listing", "scenarios"),
    [
        ("C5", LISTING, ["tools_call", "auth/dpop"]),
        ("C6", LISTING, ["auth/dpop"]),
        ("C5", BOTH, ["tools_call"]),
        ("S5", BOTH, ["ping", "tasks-lifecycle"]),
        ("R1", REQUIREMENTS, ["initialize", "tools_call"]),
        ("R3", REQUIREMENTS, ["ping"]),
    ],
)
def test_only_scenarios_of_the_leg_are_read_from_a_listing(
    legs, leg, name, listing, scenarios
):
    assert legs.parse_scenarios(listing, leg(name)) == scenarios


def test_shared_scenarios_have_equal_pins(legs, leg):
    shared = set()
    for one in legs.LEGS:
        for other in map(leg, one.shares):
            for scenario in other.pinned().keys() & one.pinned().keys():
                if (
                    one.name,
                    scenario,
                ) not in shared:  # the first leg that has it counts
                    assert one.pinned()[scenario] == other.pinned()[scenario]
                    shared.add((one.name, scenario))
    assert {name for name, _ in shared} == {"C5", "R1", "R2", "O2"}


def test_leg_shares_only_with_earlier_legs_of_its_suite_and_side(legs, leg):
    names = [one.name for one in legs.LEGS]
    for one in legs.LEGS:
        for other in map(leg, one.shares):
            assert names.index(other.name) < names.index(one.name)
            assert (other.suite, other.side) == (one.suite, one.side)


def test_server_legs_run_all_scenarios(legs):
    for leg in legs.SERVER_LEGS + legs.GATEWAY_LEGS:
        assert leg.side == "server"
        assert "all" in leg.suite_options or "--requirements" in leg.suite_options


def test_client_implements_every_scenario_of_every_leg(legs):
    source = (FOLDER / "client.py").read_text()
    for leg in legs.CLIENT_LEGS:
        for scenario in leg.pinned():
            assert f'"{scenario}"' in source, scenario


def test_readme_table_counts_the_scenarios_of_each_leg(driver, legs):
    report = driver("report")
    text = report.README.read_text()
    rows = text.partition(report.BEGIN)[2].partition(report.END)[0].splitlines()
    for leg in legs.LEGS:
        start = f"| {leg.name} | {leg.side} | {leg.suite.version} | {leg.description} |"
        (row,) = (row for row in rows if row.startswith(start))
        assert f" of {len(leg.pinned())} |" in row


def test_server_is_small_and_imports_public_modules_only():
    sources = [FOLDER / "server.py", *(FOLDER / "fixture").glob("*.py")]
    texts = [path.read_text("utf-8") for path in sources]
    assert sum(text.count("\n") for text in texts) < 700
    imported = [
        node
        for text in texts
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom | ast.Import)
    ]
    modules = {
        name
        for node in imported
        for name in (
            [node.module]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
        if name.startswith("mcpwire")
    }
    extensions = "mcpwire.server.extensions"
    assert modules == {"mcpwire", f"{extensions}.skills", f"{extensions}.tasks"}

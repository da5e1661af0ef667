"""Every rule of the protocol has one status, and the status is true."""

import json

import manifest
import pytest

STATUSES, CEILING = manifest.load(manifest.MANIFEST.read_text(encoding="utf-8"))


def test_manifest_lists_exactly_the_rules_in_order(spec_dir):
    rules = json.loads((spec_dir / "rules.json").read_bytes())
    assert manifest.compare_with_rules(STATUSES, [rule["id"] for rule in rules]) == []


def test_manifest_is_well_formed():
    assert len(STATUSES) == 564
    assert manifest.compare_with_rules(STATUSES, STATUSES) == []


@pytest.mark.timeout(180)
def test_covered_rules_are_exactly_the_tested_rules():
    assert manifest.compare_with_tests(STATUSES, manifest.tested_rules()) == []


def test_number_of_open_rules_equals_the_ceiling():
    assert manifest.compare_with_ceiling(STATUSES, CEILING) == []


@pytest.mark.parametrize(
    ("statuses", "rules", "complaint"),
    [
        ({"A-1": "covered"}, ["A-1", "A-2"], "A-2: has no status"),
        ({"A-1": "covered", "A-2": "covered"}, ["A-1"], "A-2: is no rule"),
        ({"A-2": "covered", "A-1": "covered"}, ["A-1", "A-2"], "order"),
        ({"A-1": "done"}, ["A-1"], "A-1: 'done' is no status"),
        ({"A-1": "open"}, ["A-1"], "'open' is no status"),
        ({"A-1": "waived: no"}, ["A-1"], "'waived: no' is no status"),
    ],
)
def test_mismatch_of_manifest_and_rules_is_reported(statuses, rules, complaint):
    found = manifest.compare_with_rules(statuses, rules)
    assert len(found) == 1
    assert complaint in found[0]


@pytest.mark.parametrize(
    ("statuses", "tested", "complaint"),
    [
        ({"A-1": "covered"}, {}, "A-1: 'covered', but no test carries it"),
        ({"A-1": "partly #6"}, {}, "A-1: 'partly #6', but no test carries it"),
        ({"A-1": "open #3"}, {"A-1": ["t"]}, "A-1: 'open #3', but t carries it"),
        (
            {"A-1": "waived: too dear for us"},
            {"A-1": ["t"]},
            "A-1: 'waived: too dear for us', but t carries it",
        ),
        ({}, {"A-1": ["t"]}, "A-1: no such rule, but t carries it"),
    ],
)
def test_mismatch_of_status_and_tests_is_reported(statuses, tested, complaint):
    assert manifest.compare_with_tests(statuses, tested) == [complaint]


@pytest.mark.parametrize(("ceiling", "fits"), [(1, False), (2, True), (3, False)])
def test_ceiling_must_equal_the_number_of_open_rules(ceiling, fits):
    statuses = {"A-1": "open #3", "A-2": "covered", "A-3": "partly #6"}
    assert (manifest.compare_with_ceiling(statuses, ceiling) == []) is fits


TEXT = """[ceiling]
open = 2

[rules]
A-1 = "open #2"
A-11 = "open #2"
"""


def test_rewrite_marks_tested_rules_and_lowers_the_ceiling():
    expected = TEXT.replace('A-1 = "open #2"', 'A-1 = "covered"')
    expected = expected.replace("open = 2", "open = 1")
    assert manifest.rewrite(TEXT, ["A-1"]) == expected


def test_rewrite_keeps_partly_done_rules():
    partly = TEXT.replace('A-1 = "open #2"', 'A-1 = "partly #6"')
    assert manifest.rewrite(partly, ["A-1"]) == partly


def test_rewrite_never_raises_the_ceiling():
    low = TEXT.replace("open = 2", "open = 1")
    assert manifest.rewrite(low, []) == low


def test_summary_counts_each_status_by_group():
    lines = manifest.summarize({"A-B-1": "covered", "A-B-2": "open #3"}).splitlines()
    assert lines[1].split() == ["A-B", "1", "0", "1", "0", "0"]
    assert lines[-1].split() == ["all", "1", "0", "1", "0", "0"]

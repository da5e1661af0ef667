"""Revisions: one ordered registry."""

import copy
import pickle

import attrs
import pytest

from mcpwire.versions import (
    LATEST,
    LATEST_SESSION,
    REVISIONS,
    Era,
    find_revision,
    parse_revisions,
    revisions_of,
)

NAMES = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"]


def test_revisions_are_ordered_by_date():
    assert [str(revision) for revision in REVISIONS] == NAMES
    assert sorted(REVISIONS, key=str) == sorted(REVISIONS) == list(REVISIONS)
    assert REVISIONS[0] < REVISIONS[1] <= REVISIONS[1]


def test_only_the_latest_revision_is_stateless():
    assert LATEST.name == "2026-07-28"
    assert LATEST_SESSION.name == "2025-11-25"
    eras = [revision.era for revision in REVISIONS]
    assert eras == [Era.SESSION] * 4 + [Era.STATELESS]


def test_only_one_revision_receives_batches():
    assert [r.name for r in REVISIONS if r.receives_batches] == ["2025-03-26"]


@pytest.mark.parametrize(
    ("era", "names"), [(Era.SESSION, NAMES[3::-1]), (Era.STATELESS, NAMES[4:])]
)
def test_revisions_of_an_era_are_listed_newest_first(era, names):
    assert [revision.name for revision in revisions_of(era)] == names


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_a_revision_is_found_by_its_exact_name(revision):
    assert find_revision(revision.name) is revision


@pytest.mark.parametrize(
    "name",
    ["", "2025-11-26", " 2025-11-25", "DRAFT-2026", None, 20251125, b"2025-11-25", []],
)
def test_unknown_value_finds_no_revision(name):
    assert find_revision(name) is None


@pytest.mark.parametrize("revision", REVISIONS, ids=str)
def test_revision_is_a_hashable_frozen_value(revision):
    assert pickle.loads(pickle.dumps(revision)) == revision
    assert copy.deepcopy(revision) == revision
    assert hash(copy.copy(revision)) == hash(revision)
    with pytest.raises(attrs.exceptions.FrozenInstanceError):
        revision.name = "x"


def test_parse_revisions_accepts_revisions_and_names():
    assert parse_revisions([LATEST, "2025-11-25"]) == (LATEST, LATEST_SESSION)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("2025-11-25", "takes a list, got '2025-11-25'"),
        (["2025-11-26"], "takes any of 2024-11-05, .*, got '2025-11-26'"),
        ([3], "got 3"),
    ],
)
def test_invalid_revision_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        parse_revisions(given)

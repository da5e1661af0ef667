"""Messages and results are as recorded, or the difference is listed with its reason."""

import json

import pytest

from record import docs, make

pytestmark = [
    pytest.mark.unchecked_wire("the record compares all that is sent"),
    pytest.mark.timeout(300),  # a loaded machine must not fail a test here
]

SIZE = 1_000_000


@pytest.mark.parametrize("area", make.AREAS)
def test_each_difference_from_the_record_is_listed(area):
    differences = list(make.compare(area, make.make(area)))
    assert not differences, "\n\n".join(differences)


def test_unlisted_difference_and_unneeded_listing_are_named(monkeypatch):
    kept = {"same": {"got": [1]}, "other": {"got": [1]}, "old": {"got": [1]}}
    made = {"same": {"got": [1]}, "other": {"got": [2]}, "new": {"got": [1]}}
    monkeypatch.setattr(make, "load", lambda _: kept)
    monkeypatch.setattr(make, "listed", lambda _: {"same": "in vain", "old": "is gone"})
    found = [line.partition(":")[0] for line in make.compare("area", made)]
    assert found == ["area/new", "area/other", "area/same"]


def test_record_files_are_small_and_in_canonical_form():
    files = sorted(make.DATA.glob("*.json"))
    assert {path.stem for path in files} >= set(make.AREAS)
    assert sum(path.stat().st_size for path in files) < SIZE
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert text == make.shown.dumps(json.loads(text)), path.name


def test_result_shared_by_examples_is_written_once():
    long, other = {"text": "a" * docs.LONG}, {"text": "b" * docs.LONG}
    kept = {"one": {"1 received": [{"id": 1, "result": long}, "no JSON"]}}
    kept["two"] = {
        "1 received": [{"id": 2, "result": other}, {"id": 3, "result": long}]
    }
    folded = docs.fold(kept)
    assert str(folded).count(long["text"]) == str(folded).count(other["text"]) == 1
    assert docs.unfold(folded) == kept


def test_each_listed_difference_belongs_to_an_area():
    import tomllib

    text = make.DIFFERENCES.read_text(encoding="utf-8")
    assert set(tomllib.loads(text)) <= {path.stem for path in make.DATA.glob("*.json")}

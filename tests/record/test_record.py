"""What is seen and given is what the record says, or listed with its reason."""

import json

import pytest

from record import docs, make

pytestmark = [
    pytest.mark.unchecked_wire("the record compares all that is sent"),
    pytest.mark.timeout(300),  # nothing here fails because the machine is busy
]

SIZE = 1_500_000


@pytest.mark.parametrize("area", make.AREAS)
def test_nothing_differs_from_the_record_but_what_is_listed(area):
    differences = list(make.compare(area, make.make(area)))
    assert not differences, "\n\n".join(differences)


def test_a_case_that_differs_or_is_listed_in_vain_is_named(monkeypatch):
    kept = {"same": {"got": [1]}, "other": {"got": [1]}, "old": {"got": [1]}}
    made = {"same": {"got": [1]}, "other": {"got": [2]}, "new": {"got": [1]}}
    monkeypatch.setattr(make, "load", lambda _: kept)
    monkeypatch.setattr(make, "listed", lambda _: {"same": "in vain", "old": "is gone"})
    found = [line.partition(":")[0] for line in make.compare("area", made)]
    assert found == ["area/new", "area/other", "area/same"]


def test_the_record_is_small_and_written_as_the_program_writes_it():
    files = sorted(make.DATA.glob("*.json"))
    assert {path.stem for path in files} >= set(make.AREAS)
    assert sum(path.stat().st_size for path in files) < SIZE
    for path in files:
        text = path.read_text(encoding="utf-8")
        assert text == make.shown.dumps(json.loads(text)), path.name


def test_a_result_of_several_examples_is_written_once():
    long, other = {"text": "a" * docs.LONG}, {"text": "b" * docs.LONG}
    kept = {"one": {"1 received": [{"id": 1, "result": long}, "no JSON"]}}
    kept["two"] = {
        "1 received": [{"id": 2, "result": other}, {"id": 3, "result": long}]
    }
    folded = docs.fold(kept)
    assert str(folded).count(long["text"]) == str(folded).count(other["text"]) == 1
    assert docs.unfold(folded) == kept


def test_each_listed_difference_names_an_area():
    import tomllib

    text = make.DIFFERENCES.read_text(encoding="utf-8")
    assert set(tomllib.loads(text)) <= {path.stem for path in make.DATA.glob("*.json")}

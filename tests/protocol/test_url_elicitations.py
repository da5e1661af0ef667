"""Which visits a server may still report as done."""

import pytest

from mcpwire.errors import UrlElicitationRequired
from mcpwire.protocol.client_features import UrlElicitations


@pytest.mark.rule("ELIC-23")
@pytest.mark.parametrize(
    "params",
    [
        *(None, {}, {"elicitationid": "a"}, {"elicitationId": "b"}),
        *({"elicitationId": None}, {"elicitationId": 1}, {"elicitationId": ["a"]}),
    ],
)
def test_what_names_no_open_visit_is_ignored(params):
    visits = UrlElicitations()
    visits.add("a")
    assert visits.complete(params) is False
    assert len(visits) == 1


@pytest.mark.parametrize("id", ["", "a", "ä" * 1000])
def test_ids_are_opaque(id):
    visits = UrlElicitations()
    visits.add(id)
    assert visits.complete({"elicitationId": id}) is True
    assert len(visits) == 0


def test_the_oldest_visit_is_forgotten_where_there_are_too_many():
    visits = UrlElicitations()
    for id in ("a", "b", "b", *map(str, range(1023))):
        visits.add(id)
    assert len(visits) == 1024
    completed = [visits.complete({"elicitationId": id}) for id in ("a", "b", "0")]
    assert completed == [False, True, True]


@pytest.mark.attack("S28")
def test_any_number_of_visits_costs_bounded_memory():
    visits = UrlElicitations()
    for number in range(10_000):
        visits.add(str(number))
    assert len(visits) == 1024


def test_what_is_discarded_is_over_and_unknown_ids_do_not_matter():
    visits = UrlElicitations()
    visits.add("a")
    for id in ("a", "b", None):
        visits.discard(id)
    assert visits.complete({"elicitationId": "a"}) is False


@pytest.mark.rule("ELIC-23")
@pytest.mark.parametrize(
    ("data", "count"),
    [
        (None, 0),
        ([], 0),
        ({}, 0),
        ({"elicitations": None}, 0),
        ({"elicitations": {"elicitationId": "a"}}, 0),
        ({"elicitations": [3, {}, {"elicitationId": 4}]}, 0),
        ({"elicitations": [{"elicitationId": "a"}, {"elicitationId": "b"}]}, 2),
    ],
)
def test_the_visits_that_a_call_failed_for_are_open(data, count):
    visits = UrlElicitations()
    visits.add_required(UrlElicitationRequired("visit first", data=data))
    assert len(visits) == count
    assert visits.complete({"elicitationId": "a"}) is (count > 0)

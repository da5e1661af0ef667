"""Who a request comes from: what tells principals apart, and what they show."""

import attrs
import pytest

from mcpwire.server import auth
from mcpwire.server.auth.resource_server import Principal

SECRET = "hush-hush"


@pytest.mark.case("G13")
def test_a_principal_shows_no_claims():
    principal = Principal(subject="ann", claims={"email": SECRET})
    assert SECRET not in repr(principal) + str(principal)


def test_its_key_is_issuer_client_and_subject_whatever_the_token_allows():
    one = Principal(issuer="i", client_id="c", subject="s", scopes={"a"}, expires_at=1)
    assert one.key == ("i", "c", "s")
    assert attrs.evolve(one, scopes={"b"}, expires_at=2).key == one.key


@pytest.mark.parametrize("name", ["issuer", "client_id", "subject"])
def test_who_differs_in_one_of_the_three_is_somebody_else(name):
    one = Principal(issuer="i", client_id="c", subject="s")
    assert attrs.evolve(one, **{name: "x"}).key != one.key


def test_claims_cannot_be_changed_and_are_no_part_of_comparing():
    given = {"a": 1}
    principal = Principal(claims=given)
    given["a"] = 2
    assert principal.claims == {"a": 1}
    with pytest.raises(TypeError):
        principal.claims["a"] = 3
    assert principal == Principal()
    assert len({principal, Principal()}) == 1


@pytest.mark.parametrize("name", ["scopes", "audience"])
def test_a_text_is_no_collection_of_scopes(name):
    with pytest.raises(ValueError, match="collections"):
        Principal(**{name: "read write"})


def test_the_package_gives_out_its_names_and_no_others():
    assert {name: getattr(auth, name).__name__ for name in dir(auth)} == {
        name: name for name in auth.__all__
    }
    with pytest.raises(AttributeError, match="nothing_such"):
        auth.nothing_such  # noqa: B018 - looking it up is the point

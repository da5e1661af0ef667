"""Principals: their keys, comparison and repr."""

import attrs
import pytest

from mcpwire.server import auth
from mcpwire.server.auth.resource_server import Principal

SECRET = "hush-hush"


@pytest.mark.case("G13")
def test_repr_of_a_principal_omits_claims():
    principal = Principal(subject="ann", claims={"email": SECRET})
    assert SECRET not in repr(principal) + str(principal)


def test_key_is_issuer_client_and_subject():
    one = Principal(issuer="i", client_id="c", subject="s", scopes={"a"}, expires_at=1)
    assert one.key == ("i", "c", "s")
    assert attrs.evolve(one, scopes={"b"}, expires_at=2).key == one.key


@pytest.mark.parametrize("name", ["issuer", "client_id", "subject"])
def test_key_differs_if_one_of_the_three_fields_differs(name):
    one = Principal(issuer="i", client_id="c", subject="s")
    assert attrs.evolve(one, **{name: "x"}).key != one.key


def test_claims_are_immutable_and_ignored_in_comparison():
    given = {"a": 1}
    principal = Principal(claims=given)
    given["a"] = 2
    assert principal.claims == {"a": 1}
    with pytest.raises(TypeError):
        principal.claims["a"] = 3
    assert principal == Principal()
    assert len({principal, Principal()}) == 1


@pytest.mark.parametrize("name", ["scopes", "audience"])
def test_string_for_scopes_or_audience_is_refused(name):
    with pytest.raises(ValueError, match="collections"):
        Principal(**{name: "read write"})


def test_package_exports_only_its_public_names():
    assert {name: getattr(auth, name).__name__ for name in dir(auth)} == {
        name: name for name in auth.__all__
    }
    with pytest.raises(AttributeError, match="nothing_such"):
        auth.nothing_such  # noqa: B018 - looking it up is the point

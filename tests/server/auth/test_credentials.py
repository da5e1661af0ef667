"""What a request shows, and what handlers do not get to see of it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.server.auth.resource_server import (
    Credentials,
    MalformedCredentials,
    read_credentials,
    safe_headers,
)

SECRET = "hush-hush"


@pytest.mark.case("G13")
def test_credentials_and_what_is_wrong_with_them_show_no_token():
    assert SECRET not in repr(Credentials("bearer", SECRET))
    with pytest.raises(MalformedCredentials) as caught:
        read_credentials([f"Bearer {SECRET} {SECRET}"])
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([], None),
        (["Basic YTpi"], None),
        (["Negotiate"], None),
        (["Bearer a.b-c_d~e+f/g=="], Credentials("bearer", "a.b-c_d~e+f/g==")),
        (["  dPoP   t\t"], Credentials("dpop", "t")),
    ],
)
def test_a_token_is_read_as_rfc_6750_has_it(values, found):
    assert read_credentials(values) == found


@given(st.text(st.characters(max_codepoint=255), max_size=50))
def test_what_is_read_is_a_token_or_nothing(value):
    try:
        found = read_credentials([value])
    except MalformedCredentials:
        return
    if found is not None:
        assert found.token in value
        assert found.token.isascii()
        assert not set(found.token) & set(' ,;"\\\t\r\n')


@pytest.mark.rule("FLOW-24", "SEC-03")
@pytest.mark.attack("S08")
@pytest.mark.case("G01")
def test_no_handler_sees_what_it_could_pass_on():
    headers = {
        "authorization": SECRET,
        "cookie": SECRET,
        "dpop": SECRET,
        "proxy-authorization": SECRET,
        "x-api-key": SECRET,
        "accept": "*/*",
    }
    assert safe_headers(headers, {"x-api-key"}) == {"accept": "*/*"}
    assert safe_headers({"x-api-key": "k"}) == {"x-api-key": "k"}

"""A link names its resource by a URI, or is refused where it is made."""

import pytest

from mcpwire import types
from mcpwire.errors import LocalProtocolError


@pytest.mark.parametrize("uri", ["file:///d", "a:", "x-1.y+z:b", "HTTPS://h", "a:b c"])
def test_a_link_may_have_any_uri_with_a_scheme(uri):
    assert types.ResourceLink(uri, "d").uri == uri


@pytest.mark.parametrize(
    "uri", ["d", "", ":", "/d", "1a:b", "a b:c", "ä:b", "+:b", "a/b:c", 5]
)
def test_a_link_without_a_scheme_is_refused_where_it_is_made(uri):
    with pytest.raises(LocalProtocolError) as caught:
        types.ResourceLink(uri, "file:///d")
    assert str(caught.value) == (
        "ResourceLink.uri must be a URI with a scheme (RFC 3986), such as "
        f"'file:///a.txt', got {uri!r}"
    )


def test_what_another_side_sends_is_read_all_the_same():
    sent = {"type": "resource_link", "uri": "d", "name": "file:///d"}
    assert types.decode(types.ResourceLink, sent).uri == "d"

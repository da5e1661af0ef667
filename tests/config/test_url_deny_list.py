"""The deny list of hosts and URLs for servers."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcpwire.config.url_deny_list import UrlDenyList

HOST = ["example.com"]
PATH = ["https://example.com/a/b"]


@pytest.mark.system("V05")
@pytest.mark.parametrize(
    ("entries", "url", "refused"),
    [
        # A host matches itself and its subdomains...
        (HOST, "https://example.com/", True),
        (HOST, "http://example.com:8080/mcp?x=1", True),
        (HOST, "https://sub.example.com/mcp", True),
        (HOST, "https://EXAMPLE.Com./mcp", True),
        (["Example.COM."], "https://example.com/mcp", True),
        (["*.example.com"], "https://a.example.com/mcp", True),
        (HOST, "https://notexample.com/mcp", False),
        (HOST, "https://example.com.evil.net/mcp", False),
        (HOST, "https://other.net/example.com", False),
        (HOST, "https://user@example.com/mcp", True),
        (["example.com:8443"], "https://example.com:8443/mcp", True),
        (["example.com:8443"], "https://example.com/mcp", False),
        (["localhost"], "http://localhost:3000/mcp", True),
        # ...in every spelling...
        (["127.0.0.1"], "http://0x7f.1/mcp", True),
        (["127.0.0.1"], "http://2130706433/mcp", True),
        (["127.0.0.1"], "http://[::ffff:127.0.0.1]/mcp", True),
        (["::1"], "http://[::1]:8000/mcp", True),
        (["[::1]:8000"], "http://[0:0::1]:8000/mcp", True),
        (["[::1]:8000"], "http://[::1]:8001/mcp", False),
        (["10.0.0.1"], "http://10.0.0.2/mcp", False),
        # ...a URL matches all URLs below it, by path segments.
        (PATH, "https://example.com/a/b", True),
        (PATH, "https://example.com/a/b/", True),
        (PATH, "https://example.com/a/b/c?q=1", True),
        (PATH, "https://example.com:8443/a/b", True),
        (PATH, "https://example.com/a/bc", False),
        (PATH, "https://example.com/a", False),
        (PATH, "http://example.com/a/b", False),
        (PATH, "https://sub.example.com/a/b", False),
        (PATH, "https://example.com/x/../a//./b", True),
        (PATH, "https://example.com/%61/b", True),
        (PATH, "https://example.com/a%2fb", True),
        (PATH, "https://example.com/a%5Cb", True),
        (["https://example.com:443/"], "https://example.com/mcp", True),
        (["https://example.com:443/"], "https://example.com:444/mcp", False),
        (["https://example.com"], "https://example.com/any", True),
        # An invalid URL is refused if it contains the host of an entry.
        (HOST, "https://exa mple.com@example.com/mcp", True),
        (HOST, "//EXAMPLE.com/mcp", True),
        (HOST, "https://[broken", False),
        ([], "https://example.com", False),
    ],
)
def test_deny_list_refuses_matching_urls(entries, url, refused):
    found = UrlDenyList(entries).refuses(url)
    assert found == (entries[0] if refused else None)


@pytest.mark.system("V05")
@settings(deadline=None)  # a first import takes its time
@given(st.text())
def test_any_text_is_allowed_or_refused_without_an_error(url):
    assert UrlDenyList(["example.com", *PATH]).refuses(url) in {
        None,
        "example.com",
        *PATH,
    }


def test_first_matching_entry_is_named():
    deny = UrlDenyList(["other.net", "example.com", "https://example.com"])
    assert deny.refuses("https://example.com") == "example.com"


def test_deny_list_is_true_if_it_has_entries():
    assert UrlDenyList(HOST)
    assert not UrlDenyList()


@pytest.mark.parametrize(
    ("entries", "problem"),
    [
        ("example.com", "deny list: it must be a list of hosts and URLs"),
        (None, "deny list: it must be a list of hosts and URLs"),
        ([""], "deny list: '' is neither a host nor a URL"),
        ([7], "deny list: int is neither a host nor a URL"),
        (["a b"], "deny list: 'a b' is neither a host nor a URL"),
        (["ftp://x"], "deny list: 'ftp://x' is neither a host nor a URL"),
        (["example.com/mcp"], "deny list: 'example.com/mcp' needs https:// before it"),
        (["https://x.net?a=hush"], "deny list: 'https://x.net?***' must have no query"),
    ],
)
def test_an_entry_that_is_neither_host_nor_url_is_refused(entries, problem):
    with pytest.raises(ValueError, match="deny list") as caught:
        UrlDenyList(entries)
    assert str(caught.value).replace("its host", "it") == problem


def test_repr_shows_only_the_rules():
    assert repr(UrlDenyList(["example.com"])) == "UrlDenyList(rules=('example.com',))"

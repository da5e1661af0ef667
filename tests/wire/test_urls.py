"""URL rules: one strict reading, no secrets as text, and the attacks on both."""

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpwire.wire.urls import (
    Url,
    mask_url,
    parse_url,
    resolve_url,
    same_origin,
)

READ = {
    "https://host/mcp": Url("https", None, "host", 443, "/mcp", None, None),
    "http://host": Url("http", None, "host", 80, "/", None, None),
    "HTTPS://Host.Example:8443/A/b?c=D&e#F": Url(
        "https", None, "host.example", 8443, "/A/b", "c=D&e", "F"
    ),
    "https://host:/": Url("https", None, "host", 443, "/", None, None),
    "https://host?": Url("https", None, "host", 443, "/", "", None),
    "https://host#": Url("https", None, "host", 443, "/", None, ""),
    "https://host/?a=b?c/d@e": Url("https", None, "host", 443, "/", "a=b?c/d@e", None),
    "https://host/@scope/a:b;c=d": Url(
        "https", None, "host", 443, "/@scope/a:b;c=d", None, None
    ),
    "https://host/a//../%2e/%2F": Url(
        "https", None, "host", 443, "/a//../%2e/%2F", None, None
    ),
    "https://host/?a[]=1": Url("https", None, "host", 443, "/", "a[]=1", None),
    "http://localhost:65535/": Url("http", None, "localhost", 65535, "/", None, None),
    "https://host.:1/": Url("https", None, "host.", 1, "/", None, None),
    "https://a_b.c-d/": Url("https", None, "a_b.c-d", 443, "/", None, None),
    "https://xn--bcher-kva.example/": Url(
        "https", None, "xn--bcher-kva.example", 443, "/", None, None
    ),
    "https://[2001:DB8:0::1]:99/": Url(
        "https", None, "2001:db8::1", 99, "/", None, None
    ),
    "http://127.1/": Url("http", None, "127.0.0.1", 80, "/", None, None),
}


@pytest.mark.parametrize(("text", "url"), READ.items(), ids=READ)
def test_a_url_is_read_part_by_part(text, url):
    assert parse_url(text) == url


def test_userinfo_is_read_only_where_it_is_allowed():
    url = parse_url("https://user:p%40ss@host/", allow_userinfo=True)
    assert (url.userinfo, url.host) == ("user:p%40ss", "host")
    with pytest.raises(ValueError, match="must not hold a user name"):
        parse_url("https://user:p%40ss@host/")


WHOLE = {
    "https://host": "https://host/",
    "https://host:443/a?b#c": "https://host/a?b#c",
    "http://host:443?": "http://host:443/?",
    "https://user@[::1]:8080/": "https://user@[::1]:8080/",
    "http://0x7f.1/": "http://127.0.0.1/",
}


@pytest.mark.parametrize(("text", "whole"), WHOLE.items(), ids=WHOLE)
def test_a_url_can_be_used_whole(text, whole):
    url = parse_url(text, allow_userinfo=True)
    assert url.unmasked == whole
    assert parse_url(whole, allow_userinfo=True) == url


def test_a_url_gives_what_a_request_needs():
    url = parse_url("https://[::1]:8443/a?b#c")
    assert url.authority == "[::1]:8443"
    assert url.origin == "https://[::1]:8443"
    assert url.target == "/a?b"
    assert parse_url("http://host:80").authority == "host"
    assert parse_url("http://host:80").target == "/"


BAD_CHARACTER = "the character at index"
NO_HOST = "its host is neither a name nor an address"
MALFORMED = "its host or port is malformed"
ABSOLUTE = "it must be absolute"

# One table of attacks: the URL, and why we do not use it.
REFUSED = {
    # what is no http(s) URL
    "": ABSOLUTE,
    "host/path": ABSOLUTE,
    "/path": ABSOLUTE,
    "//host/path": ABSOLUTE,
    "https:/host": ABSOLUTE,
    "https:host": ABSOLUTE,
    "://host": ABSOLUTE,
    "1ttp://host": ABSOLUTE,
    "javascript:alert(1)": ABSOLUTE,
    "javascript://host/%0aalert(1)": "its scheme must be http or https",
    "data:text/html,x": ABSOLUTE,
    "file:///etc/passwd": "its scheme must be http or https",
    "smb://host/share": "its scheme must be http or https",
    "search-ms:query=x&crumb=y": ABSOLUTE,
    "gopher://host/": "its scheme must be http or https",
    "vscode://extension/x": "its scheme must be http or https",
    "x" * 99 + "://host/": "its scheme must be http or https",
    # a user name where the host seems to be
    "https://good.example@evil.example/": "it must not hold a user name",
    "https://good.example:443@evil.example/": "it must not hold a user name",
    "https://@evil.example/": "it must not hold a user name",
    "https://a@b@evil.example/": "it must not hold a user name",
    "https://good.example%2f@evil.example/": "it must not hold a user name",
    "https://good.example%00@evil.example/": "it must not hold a user name",
    # slashes that are slashes to some
    "https:\\\\evil.example\\": BAD_CHARACTER,
    "https://good.example\\@evil.example/": BAD_CHARACTER,
    "https://good.example\\.evil.example/": BAD_CHARACTER,
    "https://good.example/\\..\\": BAD_CHARACTER,
    "https:///evil.example/": NO_HOST,
    "https:////evil.example/": NO_HOST,
    "https://#/": NO_HOST,
    # white space and controls, which some strip
    " https://host/": BAD_CHARACTER,
    "https://host/ ": BAD_CHARACTER,
    "https://host/\n": BAD_CHARACTER,
    "ht\ntps://host/": BAD_CHARACTER,
    "https://ho\tst/": BAD_CHARACTER,
    "https://ho\rst/": BAD_CHARACTER,
    "https://host/\r\nX-Evil: 1": BAD_CHARACTER,
    "https://host\0.evil.example/": BAD_CHARACTER,
    "https://host/\x7f": BAD_CHARACTER,
    "https://host/a b": BAD_CHARACTER,
    # characters that shells and openers read
    'https://host/"&calc&"': BAD_CHARACTER,
    "https://host/`id`": BAD_CHARACTER,
    "https://host/<script>": BAD_CHARACTER,
    "https://host/{a}|b^c": BAD_CHARACTER,
    "https://host/%COMSPEC%": BAD_CHARACTER,
    "https://host/%": BAD_CHARACTER,
    "https://host/%4": BAD_CHARACTER,
    "https://host/?%zz": BAD_CHARACTER,
    # look-alikes: nothing outside ASCII is read at all
    "https://b\xfccher.example/": BAD_CHARACTER,
    "https://ex\u0430mple.com/": BAD_CHARACTER,
    "https://\uff11\uff12\uff17.0.0.1/": BAD_CHARACTER,
    "https://127\u30020\u30020\u30021/": BAD_CHARACTER,
    "https://evil.com\uff0f.good.example/": BAD_CHARACTER,
    "https://evil.c\u2100.good.example/": BAD_CHARACTER,
    "https://loca\u2113host/": BAD_CHARACTER,
    "https://\u24db\u24de\u24d2alhost/": BAD_CHARACTER,
    "https://fa\xdf.example/": BAD_CHARACTER,
    "https://a\u200db.example/": BAD_CHARACTER,
    "https://a\xad.example/": BAD_CHARACTER,
    "https://host/\u202egnp.exe": BAD_CHARACTER,
    "https://host/\ud800": BAD_CHARACTER,
    # hosts that are none
    "https://ho%73t/": NO_HOST,
    "https://127.0.0.1%2f.evil.example/": NO_HOST,
    "https://-host/": NO_HOST,
    "https://host-/": NO_HOST,
    "https://a..b/": NO_HOST,
    "https://.host/": NO_HOST,
    "https://host../": NO_HOST,
    "https://./": NO_HOST,
    "https://ho!st/": NO_HOST,
    "https://a,b/": NO_HOST,
    "https://*/": NO_HOST,
    "https://" + "a" * 64 + "/": NO_HOST,
    "https://" + "a." * 127 + "a/": NO_HOST,
    # numbers that are no address
    "https://256.0.0.1/": NO_HOST,
    "https://1.2.3.4.5/": NO_HOST,
    "https://1.2.3.256/": NO_HOST,
    "https://1.2.65536/": NO_HOST,
    "https://4294967296/": NO_HOST,
    "https://0x100000000/": NO_HOST,
    "https://08.0.0.1/": NO_HOST,
    "https://127.0.0.09/": NO_HOST,
    "https://1..1/": NO_HOST,
    "https://a.1/": NO_HOST,
    "https://evil.example.0x7f/": NO_HOST,
    "https://" + "9" * 300 + "/": NO_HOST,
    # brackets
    "https://[::1/": MALFORMED,
    "https://::1/": MALFORMED,
    "https://::1]/": MALFORMED,
    "https://[::1]x/": MALFORMED,
    "https://x[::1]/": MALFORMED,
    "https://[]/": NO_HOST,
    "https://[127.0.0.1]/": NO_HOST,
    "https://[host]/": NO_HOST,
    "https://[::12345]/": NO_HOST,
    "https://[::ffff:0127.0.0.1]/": NO_HOST,
    "https://[fe80::1%25eth0]/": NO_HOST,
    "https://[fe80::1%eth0]/": BAD_CHARACTER,
    # ports
    "https://host:0/": "its port must be 1 to 65535, not 0",
    "https://host:65536/": "its port must be 1 to 65535, not 65536",
    "https://host:000443/": MALFORMED,
    "https://host:4294967739/": MALFORMED,
    "https://host:-1/": MALFORMED,
    "https://host:+443/": MALFORMED,
    "https://host:4_43/": MALFORMED,
    "https://host:0x1bb/": MALFORMED,
    "https://host:443:80/": MALFORMED,
    "https://host:port/": MALFORMED,
}


@pytest.mark.attack("S02", "S04", "S05", "S19", "S27")
@pytest.mark.parametrize(
    ("text", "reason"), REFUSED.items(), ids=lambda value: ascii(value)[:60]
)
def test_a_url_that_somebody_reads_otherwise_is_not_used(text, reason):
    with pytest.raises(ValueError, match=r"^cannot use URL '") as caught:
        parse_url(text)
    assert reason in str(caught.value)


@pytest.mark.attack("S30")
@pytest.mark.parametrize(
    ("text", "secure"),
    [
        ("https://host/", True),
        ("http://host/", False),
        ("http://localhost/", True),
        ("http://127.1/", True),
        ("http://[::1]/", True),
        ("http://0.0.0.0/", False),
        ("http://10.0.0.1/", False),
        ("http://localhost.evil.example/", False),
        ("http://127.0.0.1.nip.io/", False),
    ],
)
def test_https_and_this_machine_are_safe_to_talk_to(text, secure):
    assert parse_url(text).is_secure is secure


@pytest.mark.attack("S02", "S27")
@pytest.mark.parametrize(
    ("other", "same"),
    [
        ("https://host/x?y#z", True),
        ("HTTPS://HOST:443", True),
        ("https://host:8443/", False),
        ("http://host/", False),
        ("http://host:443/", False),
        ("https://sub.host/", False),
        ("https://host.evil.example/", False),
        ("https://host./", False),
    ],
)
def test_an_origin_is_scheme_host_and_port(other, same):
    base = parse_url("https://host/mcp")
    assert same_origin(base, parse_url(other)) is same
    assert (base.origin == parse_url(other).origin) is same


def test_spellings_of_one_address_are_one_origin():
    assert same_origin(parse_url("http://127.1"), parse_url("http://0x7f000001:80/"))


RESOLVED = {
    "x": "https://host:8443/a/x",
    "/x": "https://host:8443/x",
    "/messages?sid=1": "https://host:8443/messages?sid=1",
    "?y": "https://host:8443/a/b?y",
    "": "https://host:8443/a/b?c=1",
    "#f": "https://host:8443/a/b?c=1#f",
    "../../../x": "https://host:8443/x",
    "./x/../y": "https://host:8443/a/y",
    "//other/z": "https://other/z",
    "//host:8443/z": "https://host:8443/z",
    "http://other/": "http://other/",
    "HTTPS://other": "https://other/",
}


@pytest.mark.attack("S02", "S27")
@pytest.mark.parametrize(("reference", "target"), RESOLVED.items(), ids=RESOLVED)
def test_a_reference_leads_on_from_a_url(reference, target):
    base = parse_url("https://me:pw@host:8443/a/b?c=1#d", allow_userinfo=True)
    url = resolve_url(base, reference)
    assert url.unmasked == target
    assert url.userinfo is None
    assert same_origin(base, url) is ("other" not in target)


@pytest.mark.attack("S02", "S27")
@pytest.mark.parametrize(
    "reference",
    [
        "//me@other/",
        "//host:8443@other/",
        "///other",
        "////other",
        "https:other",
        "https:/other",
        "https://host:8443@other/",
        "\\\\other",
        "/\\other",
        "\\/other",
        "\t//other",
        "/\t/other",
        "\n//other",
        " //other",
        "//other\\@host:8443/",
        "javascript:alert(1)",
        "a:b",
        "/%zz",
        "/\xfc",
        "//\uff0fother/",
    ],
    ids=ascii,
)
def test_a_reference_that_somebody_reads_otherwise_leads_nowhere(reference):
    base = parse_url("https://host:8443/a/b")
    with pytest.raises(ValueError, match=r"^cannot use URL '"):
        resolve_url(base, reference)


SECRET = "s3cr3t"
MASKED = {
    f"https://user:{SECRET}@host/a": "https://***@host/a",
    f"https://{SECRET}@host/a": "https://***@host/a",
    f"https://host/a?token={SECRET}": "https://host/a?***",
    f"https://host/a#token={SECRET}": "https://host/a#***",
    f"https://host?{SECRET}#x": "https://host?***",
    f"https://u:{SECRET}@[::1]:80/a?b#c": "https://***@[::1]:80/a?***",
    "https://host/@scope/pkg": "https://host/@scope/pkg",
    "https://host:8443/a": "https://host:8443/a",
    "https://host/?to=a@b": "https://host/?***",
    f"https://{SECRET}?@host/": "***@host/",
    f"https://{SECRET}#x@host/a": "***@host/a",
    # no URLs: all before the last @ goes
    f"https://user:{SECRET}@@host/a": "***@host/a",
    f"https://user:p@{SECRET}@host/a?b": "***@host/a?***",
    f"https://user:p?{SECRET}@host/a": "***@host/a",
    f"https://user:p#{SECRET}@host/a": "***@host/a",
    f"https://user:p/{SECRET}@host/a": "***@host/a",
    f"https://user:{SECRET}\\@host/a": "https://***@host/a",
    f"https://host:x/a?{SECRET}": "https://host:x/a?***",
    f"user:{SECRET}@host/a?b": "***@host/a?***",
    f"mailto:{SECRET}@host": "***@host",
    f"?{SECRET}": "?***",
    "just words": "just words",
    "": "",
    # printable, and of bounded length
    "https://host/\x1b]0;x\x07\r\n": "https://host/\\x1b]0;x\\x07\\r\\n",
    "https://host/\u202e\ud800ü": "https://host/\\u202e\\ud800\\xfc",
    "https://host/" + "a" * 500: "https://host/" + "a" * 187 + "...",
}


@pytest.mark.system("A63")
@pytest.mark.attack("S23", "S32")
@pytest.mark.parametrize(
    ("text", "masked"), MASKED.items(), ids=lambda value: ascii(value)[:40]
)
def test_a_url_is_shown_without_its_secrets(text, masked):
    assert mask_url(text) == masked


@pytest.mark.attack("S23")
def test_no_text_of_a_url_shows_a_secret():
    url = parse_url(f"https://u:{SECRET}@host/a?{SECRET}#{SECRET}", allow_userinfo=True)
    assert str(url) == "https://***@host/a?***"
    assert repr(url) == "Url('https://***@host/a?***')"
    assert SECRET not in f"{url} {url!r} {[url]} {url.origin}"
    assert SECRET in url.unmasked
    assert hash(url) == hash(attrs.evolve(url))


@pytest.mark.attack("S23")
@example("", "https://{}@host/", "?")
@example("", "https://{}@host/", "#")
@given(
    st.text(max_size=5),
    st.sampled_from(
        ["https://{}@host/", "https://x:{}@h/", "https://host/?{}", "{}@h"]
    ),
    st.text(max_size=5),
)
def test_no_refusal_shows_a_secret(before, template, after):
    text = template.format(f"{before}{SECRET}{after}")
    try:
        shown = str(parse_url(text))
    except ValueError as error:
        shown = str(error)
    if "/" not in before + after:
        assert SECRET not in shown
    assert mask_url(text).isascii()


@given(st.text() | st.text("htps:/@?#[]%0x1.").map("http://{}".format))
def test_any_text_is_a_url_that_reads_the_same_again_or_is_refused(text):
    try:
        url = parse_url(text, allow_userinfo=True)
    except ValueError:
        return
    assert parse_url(url.unmasked, allow_userinfo=True) == url

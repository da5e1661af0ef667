"""URL rules: one strict parser, masked secrets, and classes of hosts."""

import attrs
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mcpwire.wire.urls import (
    Url,
    address_class,
    is_loopback,
    mask_url,
    network_of,
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
def test_url_is_parsed_into_its_parts(text, url):
    assert parse_url(text) == url


def test_userinfo_is_accepted_only_if_allowed():
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


@pytest.mark.parametrize(("text", "unmasked"), WHOLE.items(), ids=WHOLE)
def test_unmasked_url_is_complete(text, unmasked):
    url = parse_url(text, allow_userinfo=True)
    assert url.unmasked == unmasked
    assert parse_url(unmasked, allow_userinfo=True) == url


def test_url_has_the_parts_that_a_request_needs():
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

# One table of attacks: the URL, and the reason of its refusal.
REFUSED = {
    # no http(s) URL
    "": ABSOLUTE,
    "host/path": ABSOLUTE,
    "/path": ABSOLUTE,
    "//host/path": ABSOLUTE,
    "https:/host": ABSOLUTE,
    "https:host": ABSOLUTE,
    "://host": ABSOLUTE,
    "javascript:alert(1)": ABSOLUTE,
    "javascript://host/%0aalert(1)": "its scheme must be http or https",
    "file:///etc/passwd": "its scheme must be http or https",
    "x" * 99 + "://host/": "its scheme must be http or https",
    # a user name in the place of the host
    "https://good.example@evil.example/": "it must not hold a user name",
    "https://@evil.example/": "it must not hold a user name",
    "https://a@b@evil.example/": "it must not hold a user name",
    "https://good.example%00@evil.example/": "it must not hold a user name",
    # backslashes, which some parsers read as slashes
    "https:\\\\evil.example\\": BAD_CHARACTER,
    "https://good.example\\@evil.example/": BAD_CHARACTER,
    "https://good.example/\\..\\": BAD_CHARACTER,
    "https:///evil.example/": NO_HOST,
    "https://#/": NO_HOST,
    # white space and controls, which some parsers strip
    " https://host/": BAD_CHARACTER,
    "https://host/\n": BAD_CHARACTER,
    "ht\ntps://host/": BAD_CHARACTER,
    "https://host/\r\nX-Evil: 1": BAD_CHARACTER,
    "https://host\0.evil.example/": BAD_CHARACTER,
    "https://host/a b": BAD_CHARACTER,
    # characters with a meaning to shells and URL openers
    'https://host/"&calc&"': BAD_CHARACTER,
    "https://host/<script>": BAD_CHARACTER,
    "https://host/%COMSPEC%": BAD_CHARACTER,
    "https://host/%": BAD_CHARACTER,
    "https://host/?%zz": BAD_CHARACTER,
    # look-alikes: no character outside ASCII is accepted
    "https://b\xfccher.example/": BAD_CHARACTER,
    "https://ex\u0430mple.com/": BAD_CHARACTER,
    "https://\uff11\uff12\uff17.0.0.1/": BAD_CHARACTER,
    "https://evil.com\uff0f.good.example/": BAD_CHARACTER,
    "https://loca\u2113host/": BAD_CHARACTER,
    "https://a\u200db.example/": BAD_CHARACTER,
    "https://host/\u202egnp.exe": BAD_CHARACTER,
    "https://host/\ud800": BAD_CHARACTER,
    # invalid hosts
    "https://ho%73t/": NO_HOST,
    "https://127.0.0.1%2f.evil.example/": NO_HOST,
    "https://-host/": NO_HOST,
    "https://a..b/": NO_HOST,
    "https://host../": NO_HOST,
    "https://ho!st/": NO_HOST,
    "https://*/": NO_HOST,
    "https://" + "a" * 64 + "/": NO_HOST,
    "https://" + "a." * 127 + "a/": NO_HOST,
    # numbers that are no address
    "https://256.0.0.1/": NO_HOST,
    "https://1.2.3.4.5/": NO_HOST,
    "https://1.2.65536/": NO_HOST,
    "https://4294967296/": NO_HOST,
    "https://08.0.0.1/": NO_HOST,
    "https://127.0.0.09/": NO_HOST,
    "https://evil.example.0x7f/": NO_HOST,
    "https://" + "9" * 300 + "/": NO_HOST,
    # brackets
    "https://[::1/": MALFORMED,
    "https://::1/": MALFORMED,
    "https://[::1]x/": MALFORMED,
    "https://[]/": NO_HOST,
    "https://[127.0.0.1]/": NO_HOST,
    "https://[::12345]/": NO_HOST,
    "https://[::ffff:0127.0.0.1]/": NO_HOST,
    "https://[fe80::1%25eth0]/": NO_HOST,
    "https://[fe80::1%eth0]/": BAD_CHARACTER,
    # ports
    "https://host:0/": "its port must be 1 to 65535, not 0",
    "https://host:65536/": "its port must be 1 to 65535, not 65536",
    "https://host:000443/": MALFORMED,
    "https://host:-1/": MALFORMED,
    "https://host:4_43/": MALFORMED,
    "https://host:443:80/": MALFORMED,
}


@pytest.mark.attack("S02", "S04", "S05", "S19", "S27")
@pytest.mark.parametrize(
    ("text", "reason"), REFUSED.items(), ids=lambda value: ascii(value)[:60]
)
def test_ambiguous_url_is_refused(text, reason):
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
def test_https_and_loopback_urls_are_secure(text, secure):
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
def test_origin_is_scheme_host_and_port(other, same):
    base = parse_url("https://host/mcp")
    assert same_origin(base, parse_url(other)) is same
    assert (base.origin == parse_url(other).origin) is same


def test_all_spellings_of_an_address_have_one_origin():
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
def test_reference_is_resolved_against_a_url(reference, target):
    base = parse_url("https://me:pw@host:8443/a/b?c=1#d", allow_userinfo=True)
    url = resolve_url(base, reference)
    assert url.unmasked == target
    assert url.userinfo is None
    assert same_origin(base, url) is ("other" not in target)


@pytest.mark.attack("S02", "S27")
@pytest.mark.parametrize(
    "reference",
    [
        *("//me@other/", "//host:8443@other/", "///other", "////other", "https:other"),
        *("https:/other", "https://host:8443@other/", "\\\\other", "/\\other"),
        *("\\/other", "\t//other", "/\t/other", "\n//other", " //other"),
        *("//other\\@host:8443/", "javascript:alert(1)", "a:b", "/%zz"),
        *("/\xfc", "//\uff0fother/"),
    ],
    ids=ascii,
)
def test_ambiguous_reference_is_refused(reference):
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
    # no URLs: everything before the last @ is removed
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
def test_url_is_masked(text, masked):
    assert mask_url(text) == masked


@pytest.mark.attack("S23")
def test_text_of_a_url_shows_no_secret():
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
def test_refusal_shows_no_secret(before, template, after):
    text = template.format(f"{before}{SECRET}{after}")
    try:
        shown = str(parse_url(text))
    except ValueError as error:
        shown = str(error)
    if "/" not in before + after:
        assert SECRET not in shown
    assert mask_url(text).isascii()


@given(st.text() | st.text("htps:/@?#[]%0x1.").map("http://{}".format))
def test_any_text_is_refused_or_a_url_that_parses_back(text):
    try:
        url = parse_url(text, allow_userinfo=True)
    except ValueError:
        return
    assert parse_url(url.unmasked, allow_userinfo=True) == url


SPELLED = {
    "127.0.0.1": [
        *("127.0.0.1", "127.0.0.1.", "127.1", "127.0.1", "2130706433", "0x7f000001"),
        *("0X7F.0.0.1", "0x7f.1", "017700000001", "0177.0.0.1", "0177.0.0.01"),
        *("127.0x0.00.0x1", "00000000000177.1"),
    ],
    "169.254.169.254": [
        "169.254.169.254",
        "2852039166",
        "0xa9fea9fe",
        "0251.0376.0251.0376",
        "169.16689662",
        "169.254.43518",
        "0xA9.254.0251.254",
    ],
    "0.0.0.0": ["0", "0.0", "0x0", "0x", "00", "0.0.0.0", "0x.0x.0x.0x"],
    "255.255.255.255": ["4294967295", "0xffffffff", "255.255.255.255", "255.16777215"],
    "::1": ["[::1]", "[0:0:0:0:0:0:0:1]", "[0000::0001]"],
    "2001:db8::1": ["[2001:db8::1]", "[2001:DB8:0:0::0:1]", "[2001:0db8::0.0.0.1]"],
}


@pytest.mark.attack("S05", "S11")
@pytest.mark.parametrize(
    ("spelling", "host"),
    [(spelling, host) for host in SPELLED for spelling in SPELLED[host]],
)
def test_address_is_normalised_to_its_one_spelling(spelling, host):
    assert parse_url(f"http://{spelling}:8000/").host == host


# One table of attacks: the class of each spelling of a host.
CLASSES = {
    "loopback": [
        *SPELLED["127.0.0.1"],
        *SPELLED["::1"],
        *("127.0.0.0", "127.255.255.254", "::1", "::1%lo", "localhost", "LocalHost"),
        *("localhost.", "a.localhost", "a.b.localhost.", "::ffff:127.0.0.1"),
        *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[0:0:0:0:0:ffff:7f00:0001]"),
        *("[::127.0.0.1]", "[::ffff:0:127.0.0.1]", "[64:ff9b::7f00:1]"),
        *("[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "[2002:7f00:0001:1234::5678]"),
    ],
    "link-local": [
        *SPELLED["169.254.169.254"],
        *("169.254.0.0", "fe80::1", "fe80::1%eth0", "[fe80::1%25eth0]", "febf::1"),
        *("[::ffff:169.254.169.254]", "[::ffff:a9fe:a9fe]", "[::a9fe:a9fe]"),
        *("[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]"),
    ],
    "private": [
        *("10.0.0.0", "10.255.255.255", "012.1", "172.16.0.1", "172.31.255.255"),
        *("192.168.0.1", "0xc0a80001", "fc00::1", "fd00:ec2::254", "fdff:ffff::"),
        *("fec0::1", "64:ff9b:1::1", "[::ffff:10.0.0.1]", "[2002:c0a8:1::1]"),
    ],
    "cgnat": [
        "100.64.0.0",
        "100.127.255.255",
        "100.100.100.200",
        "[::ffff:100.64.0.1]",
    ],
    "unspecified": [*SPELLED["0.0.0.0"], "0.1.2.3", "::", "[::]", "[::ffff:0.0.0.0]"],
    "multicast": ["224.0.0.1", "239.255.255.255", "ff02::1", "[::ffff:224.0.0.1]"],
    "reserved": [
        *SPELLED["255.255.255.255"],
        *SPELLED["2001:db8::1"],
        *("240.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1", "198.18.0.1"),
        *("198.19.255.255", "198.51.100.1", "203.0.113.1", "168.63.129.16", "100::1"),
        *("2001::1", "2001:0:7f00:1::", "2001:1ff::", "3fff::1", "4000::1", "5f00::1"),
        *("1::", "e000::"),
    ],
    "public": [
        *("1.1.1.1", "8.8.8.8", "134744072", "010.8.8.8", "9.255.255.255", "11.0.0.0"),
        *("100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0"),
        *("169.253.255.255", "169.255.0.0", "172.15.255.255", "172.32.0.0"),
        *("192.167.255.255", "192.169.0.0", "198.17.255.255", "198.20.0.0"),
        *("223.255.255.255", "2606:4700:4700::1111", "[2a00::]", "2001:200::1"),
        *("[::ffff:8.8.8.8]", "[64:ff9b::8.8.8.8]", "[2002:808:808::]"),
    ],
    "name": [
        *("example.com", "example.com.", "localhost.evil.example", "127.0.0.1.nip.io"),
        *("evil-localhost", "alocalhost", "localhost.localdomain", "1e.100.net"),
        *("0xg.example", "xn--bcher-kva.example", "metadata.google.internal"),
        *("a_b", "dead.beef"),
    ],
    "invalid": [
        *("", ".", "a..b", "-a", "256.1.1.1", "1.2.3.4.5", "08.0.0.1"),
        *("0x1g.1", "4294967296"),
        "9" * 1000,
        *("a.0x7f", "a b", "a/b", "a@b", "a%2e", "127.0.0.1 ", " 127.0.0.1"),
        *("127.0.0.1\n", "127.0.0.1\0", "[127.0.0.1]", "[", "]", ":", ":::", "::12345"),
        *("::1]x", "127.0.0.1:80", "localhost:80", "1::2::3"),
        *("\uff11\uff12\uff17.0.0.1", "127\u30020.0.1", "\u0661.1.1.1"),
        *("loca\u2113host", "\u212a.example", "b\xfccher.example", "\ud800"),
    ],
}


@pytest.mark.attack("S05", "S11")
@pytest.mark.parametrize(
    ("host", "kind"),
    [(host, kind) for kind in CLASSES for host in CLASSES[kind]],
    ids=lambda value: ascii(value)[:40],
)
def test_host_is_classified_in_any_spelling(host, kind):
    assert address_class(host) == kind
    assert is_loopback(host) is (kind == "loopback")


@pytest.mark.attack("S05")
@given(st.ip_addresses(v=4), st.data())
def test_all_spellings_of_an_address_are_equal(address, data):
    number = int(address)
    leading = data.draw(st.integers(0, 3), label="numbers before the last")
    numbers = [number >> 8 * (3 - place) & 255 for place in range(leading)]
    numbers.append(number & (256 ** (4 - leading) - 1))
    forms = data.draw(st.lists(st.sampled_from("dxo"), min_size=4, max_size=4))
    spell = {"d": "{}".format, "x": "0x{:x}".format, "o": "0{:o}".format}
    text = ".".join(spell[f](n) for f, n in zip(forms, numbers, strict=False))
    assert parse_url(f"http://{text}").host == str(address)
    assert address_class(text) == address_class(str(address))
    assert address_class(f"::ffff:{address}") == address_class(str(address))


@pytest.mark.attack("S05")
@given(st.ip_addresses())
def test_address_private_to_python_is_never_public(address):
    if address_class(str(address)) == "public":
        inner = [getattr(address, kind, None) for kind in ("ipv4_mapped", "sixtofour")]
        # Newer Pythons call all of 6to4 private, whatever IPv4 address is inside.
        assert not next(filter(None, inner), address).is_private


@given(st.text() | st.text("0123456789abcdefx.:[]%"))
def test_any_text_has_a_class(text):
    assert address_class(text) in CLASSES


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::9", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:192.0.2.7", "192.0.2.7"),
        ("/run/mcp.sock", "/run/mcp.sock"),
        ("", ""),
    ],
)
def test_client_network_is_an_ipv4_address_or_an_ipv6_prefix(address, network):
    assert network_of(address) == network

"""What kind of address a host is, whatever its spelling."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.wire.urls import address_class, is_loopback, network_of, parse_url

SPELLED = {
    "127.0.0.1": [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "2130706433",
        "0x7f000001",
        "0X7F.0.0.1",
        "0x7f.1",
        "017700000001",
        "0177.0.0.1",
        "0177.0.0.01",
        "127.0x0.00.0x1",
        "00000000000177.1",
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
def test_an_address_gets_the_one_spelling_that_is_also_connected_to(spelling, host):
    assert parse_url(f"http://{spelling}:8000/").host == host


# One table of attacks: what each spelling of a host is.
CLASSES = {
    "loopback": [
        *SPELLED["127.0.0.1"],
        *SPELLED["::1"],
        "127.0.0.0",
        "127.255.255.254",
        "::1",
        "::1%lo",
        "localhost",
        "LocalHost",
        "localhost.",
        "a.localhost",
        "a.b.localhost.",
        "::ffff:127.0.0.1",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:ffff:7f00:0001]",
        "[::127.0.0.1]",
        "[::ffff:0:127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "[2002:7f00:0001:1234::5678]",
    ],
    "link-local": [
        *SPELLED["169.254.169.254"],
        "169.254.0.0",
        "fe80::1",
        "fe80::1%eth0",
        "[fe80::1%25eth0]",
        "febf::1",
        "[::ffff:169.254.169.254]",
        "[::ffff:a9fe:a9fe]",
        "[::a9fe:a9fe]",
        "[64:ff9b::a9fe:a9fe]",
        "[2002:a9fe:a9fe::]",
    ],
    "private": [
        "10.0.0.0",
        "10.255.255.255",
        "012.1",
        "172.16.0.1",
        "172.31.255.255",
        "192.168.0.1",
        "0xc0a80001",
        "fc00::1",
        "fd00:ec2::254",
        "fdff:ffff::",
        "fec0::1",
        "64:ff9b:1::1",
        "[::ffff:10.0.0.1]",
        "[2002:c0a8:1::1]",
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
        "240.0.0.1",
        "192.0.0.192",
        "192.0.2.1",
        "192.88.99.1",
        "198.18.0.1",
        "198.19.255.255",
        "198.51.100.1",
        "203.0.113.1",
        "168.63.129.16",
        "100::1",
        "2001::1",
        "2001:0:7f00:1::",
        "2001:1ff::",
        "3fff::1",
        "4000::1",
        "5f00::1",
        "1::",
        "e000::",
    ],
    "public": [
        "1.1.1.1",
        "8.8.8.8",
        "134744072",
        "010.8.8.8",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "126.255.255.255",
        "128.0.0.0",
        "169.253.255.255",
        "169.255.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.167.255.255",
        "192.169.0.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "[2a00::]",
        "2001:200::1",
        "[::ffff:8.8.8.8]",
        "[64:ff9b::8.8.8.8]",
        "[2002:808:808::]",
    ],
    "name": [
        "example.com",
        "example.com.",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "evil-localhost",
        "alocalhost",
        "localhost.localdomain",
        "1e.100.net",
        "0xg.example",
        "xn--bcher-kva.example",
        "metadata.google.internal",
        "a_b",
        "dead.beef",
    ],
    "invalid": [
        "",
        ".",
        "a..b",
        "-a",
        "256.1.1.1",
        "1.2.3.4.5",
        "08.0.0.1",
        "0x1g.1",
        "4294967296",
        "9" * 1000,
        "a.0x7f",
        "a b",
        "a/b",
        "a@b",
        "a%2e",
        "127.0.0.1 ",
        " 127.0.0.1",
        "127.0.0.1\n",
        "127.0.0.1\0",
        "[127.0.0.1]",
        "[",
        "]",
        ":",
        ":::",
        "::12345",
        "::1]x",
        "127.0.0.1:80",
        "localhost:80",
        "1::2::3",
        "\uff11\uff12\uff17.0.0.1",
        "127\u30020.0.1",
        "\u0661.1.1.1",
        "loca\u2113host",
        "\u212a.example",
        "b\xfccher.example",
        "\ud800",
    ],
}


@pytest.mark.attack("S05", "S11")
@pytest.mark.parametrize(
    ("host", "kind"),
    [(host, kind) for kind in CLASSES for host in CLASSES[kind]],
    ids=lambda value: ascii(value)[:40],
)
def test_a_host_is_classified_whatever_its_spelling(host, kind):
    assert address_class(host) == kind
    assert is_loopback(host) is (kind == "loopback")


@pytest.mark.attack("S05")
@given(st.ip_addresses(v=4), st.data())
def test_all_spellings_of_an_address_are_one(address, data):
    number = int(address)
    kept = data.draw(st.integers(0, 3), label="numbers before the last")
    numbers = [number >> 8 * (3 - place) & 255 for place in range(kept)]
    numbers.append(number & (256 ** (4 - kept) - 1))
    forms = data.draw(st.lists(st.sampled_from("dxo"), min_size=4, max_size=4))
    spell = {"d": "{}".format, "x": "0x{:x}".format, "o": "0{:o}".format}
    text = ".".join(spell[f](n) for f, n in zip(forms, numbers, strict=False))
    assert parse_url(f"http://{text}").host == str(address)
    assert address_class(text) == address_class(str(address))
    assert address_class(f"::ffff:{address}") == address_class(str(address))


@pytest.mark.attack("S05")
@given(st.ip_addresses())
def test_no_address_is_public_that_python_calls_private(address):
    if address_class(str(address)) == "public":
        inner = [getattr(address, kind, None) for kind in ("ipv4_mapped", "sixtofour")]
        # Newer ones call all of 6to4 private, whatever IPv4 address is inside.
        assert not next(filter(None, inner), address).is_private


@given(st.text() | st.text("0123456789abcdefx.:[]%"))
def test_any_text_is_of_some_class(text):
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
def test_a_client_has_an_ipv4_address_or_an_ipv6_network(address, network):
    assert network_of(address) == network

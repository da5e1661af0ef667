"""Text of a server is escaped before it reaches a terminal."""

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.cli.output import one_line, printable, shorten

DANGEROUS = [
    ("\x1b[31mred", "\\x1b[31mred"),
    ("\x1b]0;title\x07", "\\x1b]0;title\\x07"),
    ("\x1b]52;c;ZXZpbA==\x1b\\", "\\x1b]52;c;ZXZpbA==\\x1b\\"),
    ("\x1b]8;;http://x\x07link", "\\x1b]8;;http://x\\x07link"),
    ("\x9b31m", "\\x9b31m"),
    ("over\rwritten", "over\\rwritten"),
    ("back\b\bspace", "back\\x08\\x08space"),
    ("del\x7f", "del\\x7f"),
    ("nul\x00", "nul\\x00"),
    ("abc\u202edcba", "abc\\u202edcba"),
    ("\u2066isolate\u2069", "\\u2066isolate\\u2069"),
    ("\u200bzero", "\\u200bzero"),
    ("\ufeffbom", "\\ufeffbom"),
    ("line\u2028separator", "line\\u2028separator"),
    ("tag\U000e0041", "tag\\U000e0041"),
    ("lone\ud800", "lone\\ud800"),
]


@pytest.mark.attack("S32")
@pytest.mark.parametrize(("text", "shown"), DANGEROUS)
def test_terminal_escape_sequences_are_escaped(text, shown):
    assert one_line(text) == shown
    assert printable(text) == shown


@pytest.mark.attack("S32")
@pytest.mark.parametrize("number", [*range(0x20), *range(0x7F, 0xA0)])
def test_c0_and_c1_control_characters_are_escaped(number):
    assert chr(number) not in one_line(chr(number))
    assert printable(chr(number)).isprintable() or chr(number) in "\n\t"


@pytest.mark.parametrize(
    "text",
    ["plain", "Grüße", "日本語\u3000空白", "👩\u200d🚀", "a\u00a0b", "میخواهم\u200c"],
)
def test_text_of_any_language_is_unchanged(text):
    assert one_line(text) == text
    assert printable(text) == text


def test_newlines_and_tabs_are_escaped_only_in_one_line_text():
    assert printable("a\tb\nc\x1b\n") == "a\tb\nc\\x1b\n"
    assert one_line("a\tb\nc\x1b\n") == "a\\tb\\nc\\x1b\\n"


@pytest.mark.attack("S32")
@given(st.text())
def test_control_and_format_characters_are_escaped(text):
    joiners = {"\u200c", "\u200d"}
    for shown, kept in ((one_line(text), set()), (printable(text), {"\n", "\t"})):
        kinds = {unicodedata.category(c) for c in set(shown) - kept - joiners}
        assert not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(st.text())
def test_escaping_again_changes_nothing(text):
    assert one_line(one_line(text)) == one_line(text)
    assert printable(printable(text)) == printable(text)


@pytest.mark.parametrize(
    ("text", "limit", "cut"),
    [
        ("abc", 3, "abc"),
        ("abcdef", 5, "ab..."),
        ("abcdef", 3, "..."),
        ("abcdef", 1, "..."),
    ],
)
def test_shortened_text_ends_with_dots(text, limit, cut):
    assert shorten(text, limit) == cut

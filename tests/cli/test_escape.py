"""What a server sends reaches a terminal as something to read, never to obey."""

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
def test_what_a_terminal_would_obey_is_written_out(text, shown):
    assert one_line(text) == shown
    assert printable(text) == shown


@pytest.mark.attack("S32")
@pytest.mark.parametrize("number", [*range(0x20), *range(0x7F, 0xA0)])
def test_no_control_character_of_either_set_is_passed_on(number):
    assert chr(number) not in one_line(chr(number))
    assert printable(chr(number)).isprintable() or chr(number) in "\n\t"


@pytest.mark.parametrize(
    "text",
    ["plain", "Grüße", "日本語\u3000空白", "👩\u200d🚀", "a\u00a0b", "میخواهم\u200c"],
)
def test_text_of_any_language_stays_as_it_is(text):
    assert one_line(text) == text
    assert printable(text) == text


def test_lines_and_tabs_stay_in_a_text_and_are_written_out_in_a_line():
    assert printable("a\tb\nc\x1b\n") == "a\tb\nc\\x1b\n"
    assert one_line("a\tb\nc\x1b\n") == "a\\tb\\nc\\x1b\\n"


@pytest.mark.attack("S32")
@given(st.text())
def test_no_control_nor_format_character_survives(text):
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
def test_a_cut_shows(text, limit, cut):
    assert shorten(text, limit) == cut

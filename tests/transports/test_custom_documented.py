"""What the specification asks a transport's documentation for is there."""

from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "transports.md"


@pytest.mark.rule("TR-CUST-03")
@pytest.mark.parametrize("part", ["Establishment", "Framing", "Cancellation"])
def test_the_page_says_how_connections_begin_are_framed_and_calls_given_up(part):
    _, _, text = PAGE.read_text(encoding="utf-8").partition(f"**{part}.**")
    assert len(text.partition("**")[0].split()) > 40

"""Options that cannot be are refused when a set is made, by their names."""

import pytest
from shelf import Shelf

import mcpwire.tools
from mcpwire.tools import ToolSet


@pytest.mark.parametrize(
    ("options", "error", "problem"),
    [
        ({"errors": "ignore"}, ValueError, "errors must be 'raise' or 'result'"),
        ({"max_result_bytes": 0}, ValueError, "max_result_bytes must be above zero"),
        ({"max_result_bytes": True}, ValueError, "max_result_bytes must be above"),
        ({"allow": [7]}, TypeError, "a pattern must be a string, got 7"),
        ({"deny": [7]}, TypeError, "a pattern must be a string, got 7"),
        ({"confirm": [7]}, TypeError, "a pattern must be a string, got 7"),
        ({"strip_arguments": [7]}, TypeError, "a pattern must be a string, got 7"),
        ({"groups": [7]}, TypeError, "a pattern must be a string, got 7"),
        ({"trusted": [7]}, TypeError, "a pattern must be a string, got 7"),
        ({"names": "{tool}"}, TypeError, "'names' must be"),
        ({"approve": "yes"}, TypeError, "'approve' must be callable"),
        ({"transforms": {"a/*": "x"}}, TypeError, r"transforms\['a/\*'\] must be a"),
        ({"alow": "x"}, TypeError, "unexpected keyword argument 'alow'"),
    ],
)
def test_an_option_that_cannot_be_is_refused(options, error, problem):
    with pytest.raises(error, match=problem):
        ToolSet(Shelf(), **options)


def test_what_the_package_names_is_there_and_nothing_else():
    for name in mcpwire.tools.__all__:
        assert getattr(mcpwire.tools, name).__name__ == name
    with pytest.raises(AttributeError, match="has no attribute 'Toolset'"):
        mcpwire.tools.Toolset  # noqa: B018 - that is what raises

"""The blocking group and tool set have the names and parameters of asyncio's."""

import inspect
import subprocess
import sys

import pytest

import mcpwire.sync
import mcpwire.sync.group
from mcpwire.group import Group, GroupEvents
from mcpwire.tools import ToolSet

TWINS = [
    (Group, mcpwire.sync.Group),
    (GroupEvents, mcpwire.sync.group.GroupEvents),
    (ToolSet, mcpwire.sync.ToolSet),
]

RENAMED = {
    "aclose": "close",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
}

NOT_THERE = {
    (Group, "idle"): "nobody wakes up to close what is idle",
    (Group, "restart"): "nobody wakes up to connect again: the next call does",
    (Group, "slots"): "a semaphore of asyncio's seats",
}
"""What the blocking side lacks, and why."""

OURS_ALONE = {
    (Group, "background"): "whether a thread reads while nobody calls",
    (Group, "listen"): "whether a thread may be needed to hear of changed lists",
    (ToolSet, "accept"): "takes turns with listings",
}
"""What the blocking side has of its own, and why."""

SPECIAL = {"__init__", "__getitem__", "__contains__", "__len__", "__bool__", "__repr__"}


def is_public(name):
    """Tell whether a user may write the name, or what it stands for."""
    return not name.startswith("_") or name in {*RENAMED, *RENAMED.values(), *SPECIAL}


def names_of(kind):
    """Return the public members of a class, by their blocking names."""
    return {RENAMED.get(name, name) for name in dir(kind) if is_public(name)}


def parameters_of(kind, name):
    """Return the parameters of a method, but for what only one side has."""
    found = inspect.signature(getattr(kind, name)).parameters.values()
    return [
        (each.name, each.kind, each.default)
        for each in found
        if each.name not in {"idle", "restart", "background", "listen"}
    ]


@pytest.mark.parametrize(("theirs", "ours"), TWINS)
def test_both_have_the_same_names(theirs, ours):
    missing = names_of(theirs) - names_of(ours)
    assert {(theirs, name) for name in missing} <= set(NOT_THERE)
    more = names_of(ours) - names_of(theirs)
    assert {(theirs, name) for name in more} <= set(OURS_ALONE)


@pytest.mark.parametrize(("theirs", "ours"), TWINS)
def test_both_take_the_same_arguments(theirs, ours):
    blocking = {value: key for key, value in RENAMED.items()}
    checked = 0
    for name in names_of(theirs) & names_of(ours):
        if not callable(getattr(ours, name)):
            continue
        other = blocking.get(name, name)
        other = other if hasattr(theirs, other) else name
        assert parameters_of(theirs, other) == parameters_of(ours, name), name
        checked += 1
    assert checked >= 8


def test_what_differs_is_told_in_the_constructor():
    theirs = set(inspect.signature(Group).parameters)
    ours = set(inspect.signature(mcpwire.sync.Group).parameters)
    assert theirs - ours == {name for kind, name in NOT_THERE if name != "slots"}
    assert ours - theirs == {"background", "listen"}


def test_each_name_is_imported_with_its_first_use():
    with pytest.raises(AttributeError, match="has no attribute 'Nothing'"):
        mcpwire.sync.group.Nothing  # noqa: B018 - that is what is tested
    assert {"Group", "ToolSet"} <= set(dir(mcpwire.sync))


def test_no_event_loop_is_even_imported():
    code = """
import sys
from mcpwire.sync import Group
group = Group({"a": "true"}, confirm=True)
from mcpwire.sync import ToolSet
ToolSet(group.source)
print(sorted({"asyncio", "anyio", "httpx", "ssl"} & set(sys.modules)))
"""
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=30,
        check=True,
    )
    assert done.stdout == "[]\n"

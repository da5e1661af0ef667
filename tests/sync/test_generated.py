"""The blocking classes have the names and parameters of the asyncio ones."""

import inspect
import sys
from pathlib import Path

import generate
import pytest
from child_python import finished, printed_by

import mcpwire
import mcpwire.sync
from mcpwire.group import GroupEvents
from mcpwire.sync import _generated_group

ROOT = Path(__file__).parents[2]

RENAMED = {
    "aclose": "close",
    "__aenter__": "__enter__",
    "__aexit__": "__exit__",
    "__aiter__": "__iter__",
    "__anext__": "__next__",
    "__await__": "result",
}
"""Names of the asyncio classes that the blocking ones have in their own form."""

SPECIAL = {"__init__", "__getitem__", "__contains__", "__len__", "__bool__"}

INTERNAL = {*generate.SKIPPED, *("Group.turned", "PendingCall.started")}
"""Names that the asyncio classes use between each other."""

CONSTRUCTIBLE = {"Client", "Group"}

BLOCKING_ONLY = {"background"}
"""Parameters of the blocking classes only."""

CLASSES = sorted(
    name
    for name in set(mcpwire.sync.__all__) - {"CallOptions"}
    if inspect.isclass(getattr(mcpwire, name))
)
PAIRS = [
    *((getattr(mcpwire, name), getattr(mcpwire.sync, name)) for name in CLASSES),
    (GroupEvents, _generated_group.GroupEvents),
]
FUNCTIONS = sorted(
    name for name in mcpwire.sync.__all__ if inspect.isfunction(getattr(mcpwire, name))
)


def public(kind):
    return {
        RENAMED.get(name, name): member
        for name, member in inspect.getmembers_static(kind)
        if (not name.startswith("_") or name in {*RENAMED, *RENAMED.values(), *SPECIAL})
        and not (name in SPECIAL and member is getattr(object, name, None))
        and (name != "__init__" or kind.__name__ in CONSTRUCTIBLE)
        and f"{kind.__name__}.{name}" not in INTERNAL
    }


def parameters(function):
    """Return the parameters of a function, except for the blocking-only ones."""
    return [
        (each.name, each.kind, each.default)
        for each in inspect.signature(function).parameters.values()
        if each.name not in BLOCKING_ONLY
    ]


def test_the_generated_modules_are_up_to_date():
    assert generate.main([]) is None


def test_an_unused_text_replacement_is_reported(monkeypatch):
    monkeypatch.setattr(generate, "TEXTS", (*generate.TEXTS, ("no such text", "")))
    assert generate.main([]) == "no docstring contains ['no such text']"


def test_the_generator_refuses_unknown_arguments():
    done = finished(sys.executable, str(ROOT / "tests/sync/generate.py"), "--help")
    assert (done.returncode, done.stdout) == (1, "")
    assert "usage" in done.stderr


@pytest.mark.pain("P12")
@pytest.mark.parametrize(("theirs", "ours"), PAIRS, ids=lambda value: value.__name__)
def test_both_have_the_same_names(theirs, ours):
    assert set(public(theirs)) <= set(public(ours))
    assert {name for name in public(ours) if name not in public(theirs)} <= {"result"}


@pytest.mark.pain("P12")
@pytest.mark.parametrize(("theirs", "ours"), PAIRS, ids=lambda value: value.__name__)
def test_both_take_the_same_parameters(theirs, ours):
    own, checked = public(ours), 0
    for name, member in public(theirs).items():
        if inspect.isfunction(member) and name not in {"result", "__exit__"}:
            assert parameters(own[name]) == parameters(member), name
            checked += 1
    assert checked


@pytest.mark.parametrize("name", FUNCTIONS)
def test_both_have_the_same_functions(name):
    theirs, ours = getattr(mcpwire, name), getattr(mcpwire.sync, name)
    assert parameters(ours) == parameters(theirs)
    assert not inspect.iscoroutinefunction(ours)


@pytest.mark.parametrize(("_", "ours"), PAIRS, ids=lambda value: value.__name__)
def test_each_public_name_has_a_docstring_without_async_terms(_, ours):
    assert ours.__doc__
    for name, member in public(ours).items():
        if not name.startswith("_"):
            text = inspect.getdoc(member) or ""
            assert text, name
            assert not generate.LEFT_OVER.search(text), name


def test_each_async_class_has_a_blocking_counterpart():
    """Except for servers, gateways and custom transports, which are always async."""
    without = ("mcpwire.server.", "mcpwire.gateway.", "mcpwire.transports.custom")
    belonging = {
        name
        for name in mcpwire.__all__
        for value in [getattr(mcpwire, name)]
        if inspect.isclass(value)
        and not value.__module__.startswith(without)
        and any(map(inspect.iscoroutinefunction, vars(value).values()))
    }
    assert belonging <= set(mcpwire.sync.__all__)


def test_importing_the_package_does_not_load_the_client():
    code = "import sys, mcpwire.sync\nprint(*(m for m in sys.modules if 'mcpw' in m))"
    loaded = set(printed_by("-I", "-c", code).split())
    assert loaded <= {"mcpwire", "mcpwire._package", "mcpwire.sync"}


def test_an_unknown_name_raises_attribute_error():
    with pytest.raises(AttributeError, match="no_such_name"):
        mcpwire.sync.no_such_name  # noqa: B018 - the access is the subject
    assert set(mcpwire.sync.__all__) <= set(dir(mcpwire.sync))

"""Errors of groups: what they say, what they carry, and that they survive copies."""

import copy
import pickle

import pytest

from mcpwire.errors import GroupError
from mcpwire.protocol.many.errors import (
    ConfigError,
    NameCollision,
    NeedsConfirmation,
    NotAllowed,
    UnknownServer,
    UnknownTool,
)

CASES = [
    (UnknownServer("x"), "no server named 'x'"),
    (UnknownServer("x", known=["a", "b"]), "no server named 'x' (known: 'a', 'b')"),
    (
        UnknownServer("x", known="abcdef"),
        "no server named 'x' (known: 'a', 'b', 'c', 'd', 'e', ...)",
    ),
    (UnknownTool("t" * 101), f"no tool named '{'t' * 100}...'"),
    (UnknownTool("ad", close=["add"]), "no tool named 'ad' (did you mean: 'add')"),
    (NotAllowed("rm", rule="deny: rm"), "the tool 'rm' is not allowed (deny: rm)"),
    (NeedsConfirmation("rm"), "the tool 'rm' needs confirmation"),
    (
        NameCollision("add", owners=[("a", "add"), ("b", "add")]),
        "the name 'add' would belong to 'add' of 'a', 'add' of 'b'",
    ),
    (ConfigError("is empty"), "is empty"),
    (
        ConfigError("TOKEN is not set", file="a.toml", entry="time", field="env.KEY"),
        "a.toml: time: env.KEY: TOKEN is not set",
    ),
]


@pytest.mark.system("R05")
@pytest.mark.parametrize(("error", "text"), CASES, ids=lambda case: repr(case)[:40])
def test_an_error_says_what_and_where(error, text):
    assert str(error) == text
    assert isinstance(error, GroupError)


@pytest.mark.parametrize("error", [error for error, _ in CASES], ids=repr)
@pytest.mark.parametrize("again", [copy.copy, lambda e: pickle.loads(pickle.dumps(e))])
def test_a_copy_says_and_carries_the_same(error, again):
    twin = again(error)
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)


def test_what_is_to_be_confirmed_is_a_copy_of_the_arguments():
    arguments = {"path": "/"}
    error = NeedsConfirmation("rm", arguments=arguments)
    arguments["path"] = "/tmp"
    assert error.arguments == {"path": "/"}

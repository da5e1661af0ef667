"""Every error message in the package is one sentence in one style."""

import ast
from pathlib import Path

import pytest

import mcpwire
from mcpwire import errors, types

PACKAGE = Path(mcpwire.__file__).parent
RAISED = {"ValueError", "TypeError", "AttributeError", "rpc_error", *errors.__all__}
NAMES = {"JSON", "SIGTERM", *errors.__all__}
"""Words that may start a message with a capital."""


def literal(node):
    """Return the text of a literal, with marks for interpolated values, or None."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        parts = node.values
        return "".join(p.value if isinstance(p, ast.Constant) else "\0" for p in parts)
    return None


def sentences(source):
    """Yield line and text of each message given to an error, hints included."""
    for node in ast.walk(ast.parse(source)):
        name = getattr(getattr(node, "func", None), "id", None)
        if not isinstance(node, ast.Call) or name not in RAISED:
            continue
        # The first argument of this error is a path, such as `Tool.name`.
        given = [] if name == "InvalidMessage" else node.args[:1]
        given += [k.value for k in node.keywords if k.arg in {"hint", "detail"}]
        for argument in given:
            text = literal(argument)
            if text is not None:
                yield node.lineno, text


def is_name(word):
    """Return whether a word is a name, or a path that starts with a type."""
    return word.rstrip(":,") in NAMES or word.partition(".")[0] in types.__all__


def faults(text):
    first = text.split(maxsplit=1)[0] if text.split() else ""
    if not first:
        yield "is empty"
    elif first[0].isupper() and not is_name(first):
        yield "opens with a capital"
    if text.endswith((".", "!", "?", " ", ":")):
        yield "ends with a mark"
    if "\n" in text:
        yield "is no single line"


def test_each_error_message_is_one_lower_case_sentence_without_a_period():
    found, wrong = 0, []
    for path in sorted(PACKAGE.rglob("*.py")):
        for line, text in sentences(path.read_text(encoding="utf-8")):
            found += 1
            where = f"{path.relative_to(PACKAGE)}:{line}"
            wrong += [f"{where} {fault}: {text!r}" for fault in faults(text)]
    assert wrong == []
    assert found > 50


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "is empty"),
        ("No such tool", "opens with a capital"),
        ("no such tool.", "ends with a mark"),
        ("no such\ntool", "is no single line"),
    ],
)
def test_message_in_another_style_is_found(text, fault):
    source = f"raise ValueError({text!r})"
    assert [f for _, t in sentences(source) for f in faults(t)] == [fault]


def test_paths_and_interpolated_values_are_allowed():
    source = (
        "InvalidMessage('Tool.name', expected='x', got=y); rpc_error(f'{x} is {y}')"
    )
    assert [f for _, text in sentences(source) for f in faults(text)] == []

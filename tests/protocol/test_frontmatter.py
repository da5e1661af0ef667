"""What stands at the head of a `SKILL.md`, and whether it is what was said of it."""

import contextlib
import sys
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.frontmatter import (
    MAX_DEPTH,
    MAX_HEAD,
    MAX_NODES,
    FrontmatterFault,
    difference,
    split,
)

# --- the head


@pytest.mark.parametrize(
    ("text", "head", "rest"),
    [
        ("---\na: 1\n---\nbody\n", "a: 1\n", "body\n"),
        ("---\na: 1\n---", "a: 1\n", ""),
        ("---\r\na: 1\r\n---\r\nbody", "a: 1\r\n", "body"),
        ("\ufeff---\na: 1\n---\n\n", "a: 1\n", "\n"),
        ("--- \t\na: 1\n---  \nbody", "a: 1\n", "body"),
        ("---\n---\nbody", "", "body"),
        ("---\na: 1\n---\nb\n---\nc", "a: 1\n", "b\n---\nc"),
        ("---\na: '---'\n --- \n----\n---\n", "a: '---'\n --- \n----\n", ""),
    ],
)
def test_a_head_stands_between_two_lines(text, head, rest):
    assert split(text) == (head, rest)


@pytest.mark.parametrize(
    "text",
    ["", "body", "\n---\na: 1\n---\n", "---\na: 1\n", "--- a: 1\n---\n", "---a\n---\n"],
)
def test_a_document_without_a_head_is_refused(text):
    with pytest.raises(FrontmatterFault, match="is not there"):
        split(text)


@pytest.mark.parametrize("end", ["---\n", "", "x" * 1_000_000])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_a_head_ends_within_its_limit(mark, end):
    longest = "a" * (MAX_HEAD - 1) + "\n"
    assert split(f"{mark}---\n{longest}---\n") == (longest, "")
    with pytest.raises(FrontmatterFault, match=f"does not end within {MAX_HEAD}"):
        split(f"{mark}---\na{longest}{end}")


# --- what it says

AGREE = [
    ("name: pdf", {"name": "pdf"}),
    ("a: 'x'\nb: [1, {c: 2.5}]", {"a": "x", "b": [1, {"c": 2.5}]}),
    ("a: |\n  one\n  two\n", {"a": "one\ntwo\n"}),
    ("a: >-\n  one\n  two\n", {"a": "one two"}),
    ("a:\nb: ~", {"a": None}),
    ("a: 1", {"a": 1, "b": None}),
    ("1: a\nyes: b", {"1": "a", "yes": "b"}),
    # One word, two readings.
    ("a: yes", {"a": True}),
    ("a: yes", {"a": "yes"}),
    ("a: Off", {"a": False}),
    ("a: Off", {"a": "Off"}),
    ("a: true", {"a": True}),
    ("a: FALSE", {"a": False}),
    ("a: 010", {"a": 8}),
    ("a: 010", {"a": 10}),
    ("a: 0o17", {"a": 15}),
    ("a: 0x1f", {"a": 31}),
    ("a: 1:30", {"a": 90}),
    ("a: 1:30", {"a": "1:30"}),
    ("a: 1_000", {"a": 1000}),
    ("a: 1_000", {"a": "1_000"}),
    ("a: 1e3", {"a": 1000}),
    ("a: 1e3", {"a": "1e3"}),
    ("a: 1.0", {"a": 1}),
    ("a: 1.10", {"a": 1.1}),
    ("a: 2026-07-28", {"a": "2026-07-28"}),
    ("a: =", {"a": "="}),
    ("a: 0b_", {"a": "0b_"}),
    ("a: !!str 5", {"a": "5"}),
]


@pytest.mark.parametrize(("head", "said"), AGREE)
def test_what_was_said_is_what_stands_there(head, said):
    assert difference(head, said) is None


DIFFER = [
    ("a: x", {"a": "y"}, "a"),
    ("a: x", {}, "a"),
    ("a: x", {"a": None}, "a"),
    ("a: x", {"a": "x", "b": 0}, "b"),
    ("a: x\nb: y", {"a": "x", "b": "Y"}, "b"),
    ("a: {b: {c: 1}}", {"a": {"b": {"c": 2}}}, "a.b.c"),
    ("a: {b: 1}", {"a": [1]}, "a"),
    ("a: [1, 2]", {"a": [1, 3]}, "a[1]"),
    ("a: [1, 2]", {"a": [1]}, "a"),
    ("a: [1]", {"a": "1"}, "a"),
    ("a: []", {"a": {}}, "a"),
    ("a: 1", {"a": True}, "a"),
    ("a: true", {"a": 1}, "a"),
    ("a: 1", {"a": "1"}, "a"),
    ("a: '1'", {"a": 1}, "a"),
    ("a: 'yes'", {"a": True}, "a"),
    ("a: ''", {"a": None}, "a"),
    ("a: 2026-07-28", {"a": "2026-07-29"}, "a"),
    ("a: !!int ''", {"a": ""}, "a"),
    ("a: " + "9" * 5_000, {"a": 9}, "a"),
    ("a: .inf", {"a": 1}, "a"),
]


@pytest.mark.parametrize(("head", "said", "field"), DIFFER)
def test_the_first_field_that_is_another_is_named(head, said, field):
    assert difference(head, said) == field


# --- what is not read


@pytest.mark.rule("EXT-05")
@pytest.mark.parametrize(
    ("head", "why"),
    [
        ("", "is no mapping"),
        ("- a", "is no mapping"),
        ("a: b: c", "is no YAML: 'mapping values"),
        ("a: \x00", "is no YAML: 'unreadable'"),
        ("a: 1\n...\nb: 2", "is no YAML"),
        ("a: 1\na: 2", "has the key 'a' twice"),
        ("b: {a: 1, 'a': 1}", "has the key 'a' twice"),
        ("[a]: 1", "has a key that is no text"),
        ("a: &x 1\nb: *x", "has an alias"),
        ("a: &x [*x]", "has an alias"),
        ("<<: {a: 1}", "has a merge"),
        ("a: !!python/object/apply:os.getpid []", "has a value of the type"),
        ("a: !!python/name:os.getpid ''", "has a value of the type"),
        ("a: !own x", "has a value of the type '!own'"),
        ("a: !!set {x}", "has a value of the type"),
        ("a: !!binary aGk=", "has a value of the type"),
        ("a: " + "[" * MAX_DEPTH, f"is nested more than {MAX_DEPTH} levels"),
        ("a: [" + "1," * MAX_NODES + "]", f"has more than {MAX_NODES} keys"),
    ],
)
def test_anything_but_plain_data_is_refused(head, why):
    # What was said is what a reader would have to say to see all of it.
    said = {"a": "x", "b": {}, "[a]": 1, "<<": {"a": 1}}
    if "[" in head:
        said["a"] = []
    with pytest.raises(FrontmatterFault) as caught:
        difference(head, {**said, **({"a": {"x": None}} if "{x}" in head else {})})
    assert why in str(caught.value)


BOMBS = {
    "brackets": "a: " + "[" * (MAX_HEAD - 4),
    "items": "a: [" + "1," * (MAX_HEAD // 2 - 4) + "]",
    "aliases": "a: &a [x,x]\n"
    + "".join(f"b{i}: &b{i} [*{'a' if i == 0 else f'b{i - 1}'}]\n" for i in range(900)),
    "merges": "a: &a {x: 1}\n"
    + "".join(f"b{i}: &b{i} {{<<: [*a, *a]}}\n" for i in range(900)),
    "one text": "a: " + "x " * (MAX_HEAD // 2 - 4),
    "comments": "#\n" * (MAX_HEAD // 2),
}


@pytest.mark.parametrize("head", BOMBS.values(), ids=BOMBS)
def test_no_head_costs_more_than_a_moment(head):
    started = process_time()
    with contextlib.suppress(FrontmatterFault):
        difference(head, {"a": "x"})
    assert process_time() - started < 6.0


PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.text(max_size=5), PLAIN, max_size=4))
def test_what_a_yaml_library_writes_is_what_it_wrote(said):
    import yaml

    head = yaml.safe_dump(said, allow_unicode=False, default_style='"')
    kinds = yaml.safe_load(head)
    assert kinds == said
    assert difference(head, said) is None


def test_without_pyyaml_one_sentence_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(LocalProtocolError, match=r"pip install PyYAML$"):
        difference("a: 1", {"a": 1})

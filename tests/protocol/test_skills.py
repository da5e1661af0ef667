"""Skill entries of a server, and whether its files match them (SEP-2640)."""

import contextlib
import copy
import pickle
import sys
from hashlib import sha256

import pytest
from proportion import grows_in_proportion

from mcpwire.errors import LocalProtocolError, RemoteProtocolError
from mcpwire.protocol.skills import (
    MAX_BYTES,
    MAX_DEPTH,
    MAX_FILES,
    MAX_FRONTMATTER,
    MAX_NODES,
    FrontmatterError,
    SkillError,
    check_entry,
    check_file,
    file_bytes,
    find_difference,
    find_file_uri,
    read_frontmatter,
    split_document,
)
from mcpwire.types import ReadResourceResult, Skill, decode

ROOT = "skill://pdf"
URI = f"{ROOT}/SKILL.md"
FORMS = f"{ROOT}/references/FORMS.md"
DOCUMENT = b"---\nname: pdf\ndescription: Fills forms\n---\n\nDo it.\n"
FORM = b"A form.\n"


def file_entry(uri, data):
    return {
        "uri": uri,
        "digest": f"sha256:{sha256(data).hexdigest()}",
        "size": len(data),
    }


ENTRY = {
    "uri": URI,
    "frontmatter": {"name": "pdf", "description": "Fills forms"},
    "resources": [file_entry(URI, DOCUMENT), file_entry(FORMS, FORM)],
}


def skill(**members):
    return decode(Skill, {**copy.deepcopy(ENTRY), **members})


def files(*more):
    return [*ENTRY["resources"], *more]


def entry_at(root, name="pdf"):
    """Return the entry of a skill at another root."""
    return skill(
        uri=f"{root}/SKILL.md",
        frontmatter={"name": name, "description": "x"},
        resources=[file_entry(f"{root}/SKILL.md", DOCUMENT)],
    )


def skill_error(function, *arguments):
    with pytest.raises(SkillError) as caught:
        function(*arguments)
    return caught.value


@pytest.mark.parametrize(
    "root",
    [
        "skill://pdf",
        "skill://a/b/pdf",
        "https://example.com:8000/skills/pdf",
        "skill://x/" + "a" * 64,
        "skill://a-1-b",
        "skill://7",
    ],
)
def test_valid_entry_is_accepted(root):
    check_entry(entry_at(root, root.rpartition("/")[2]))


OUTSIDE = [
    *("skill://other/x", "skill://pdf", "skill://pdf/", "skill://pdf2/x"),
    *("file:///etc/passwd", "references/FORMS.md", f"{ROOT}/../x", f"{ROOT}/a/./x"),
    *(f"{ROOT}/%2e%2e/x", f"{ROOT}/..%2fx", f"{ROOT}/..%5Cx", f"{ROOT}/a//x"),
    *(f"{ROOT}/a%00b", f"{ROOT}/a\\b", f"{ROOT}/a b", f"{ROOT}/a?b", f"{ROOT}/a#b"),
    f"{ROOT}/é",
]
LISTED_TWICE = [FORMS, URI, f"{ROOT}/references/%46ORMS.md"]
NO_DOCUMENT_IN_A_FOLDER = [
    *("", "SKILL.md", "pdf/SKILL.md", "skill:pdf/SKILL.md", "skill:///SKILL.md"),
    *("skill://pdf/skill.md", "skill://pdf/SKILL.md/", "skill://pdf/SKILL.md?x"),
    *("skill://pdf/SKILL.md#x", "skill://pdf", "skill://a/../pdf/SKILL.md"),
    *("skill://a/%2e%2E/pdf/SKILL.md", "skill://a//pdf/SKILL.md"),
    *("skill://a\\pdf/SKILL.md", "skill://a b/pdf/SKILL.md", "skill://pdf/SKILL.md\n"),
]
NO_SHA_256 = [
    *("", "0" * 64, "sha256:" + "0" * 63, "sha256:" + "0" * 65, "sha256:" + "A" * 64),
    *("sha256:" + "0" * 64 + "\n", "sha512:" + "0" * 64),
]


def with_file(**members):
    return skill(resources=files({**file_entry(f"{ROOT}/x", FORM), **members}))


@pytest.mark.parametrize(
    ("entry", "rule", "uri"),
    [
        *(
            (entry_at(f"skill://{name}", name), "name", f"skill://{name}/SKILL.md")
            for name in ("PDF", "p_f", "-pdf", "pdf-", "p--f", "a" * 65)
        ),
        *(
            (entry_at(f"skill://{name}", name), "uri", f"skill://{name}/SKILL.md")
            for name in ("", "pdf\n", "pdé", "p f", ".")
        ),
        *(
            (skill(frontmatter=frontmatter), "name", URI)
            for frontmatter in ({}, {"name": None}, {"name": ["pdf"]})
        ),
        *(
            (entry_at(root), "name", f"{root}/SKILL.md")
            for root in ("skill://other", "skill://pdf/x", "skill://pdf2")
        ),
        *(
            (skill(frontmatter={"name": "pdf", "description": d}), "description", URI)
            for d in (None, "", " \n", 7)
        ),
        *((skill(uri=uri), "uri", uri) for uri in NO_DOCUMENT_IN_A_FOLDER),
        *((with_file(uri=uri), "files", uri) for uri in (*OUTSIDE, *LISTED_TWICE)),
        *((skill(resources=r), "files", URI) for r in ([], [file_entry(FORMS, FORM)])),
        *((with_file(digest=text), "format", f"{ROOT}/x") for text in NO_SHA_256),
        (with_file(size=-1), "format", f"{ROOT}/x"),
    ],
    ids=lambda value: None if isinstance(value, Skill) else ascii(value)[:40],
)
def test_entry_that_breaks_a_rule_is_refused(entry, rule, uri):
    error = skill_error(check_entry, entry)
    assert (error.rule, error.uri, error.skill) == (rule, uri, entry.uri)


def test_number_of_files_is_limited():
    entries = [file_entry(f"{ROOT}/{i}", b"") for i in range(MAX_FILES - 2)]
    check_entry(skill(resources=files(*entries)))
    error = skill_error(
        check_entry, skill(resources=files(*entries, file_entry("skill://", b"")))
    )
    assert error.rule == "limit"


def test_total_size_is_limited():
    big = file_entry(f"{ROOT}/big", b"")
    big["size"] = MAX_BYTES - len(DOCUMENT) - len(FORM)
    check_entry(skill(resources=files(big)))
    big["size"] += 1
    assert skill_error(check_entry, skill(resources=files(big))).rule == "limit"


@pytest.mark.parametrize(
    "path", [FORMS, "references/FORMS.md", "./references/FORMS.md"]
)
@pytest.mark.parametrize("resources", [ENTRY["resources"], "dynamic"])
def test_file_is_found_by_its_path(path, resources):
    assert find_file_uri(skill(resources=resources), path) == FORMS


@pytest.mark.parametrize("path", ["a b/é.md", "a%20b/%C3%A9.md"])
@pytest.mark.parametrize("is_dynamic", [False, True])
def test_unencoded_path_is_found(path, is_dynamic):
    uri = f"{ROOT}/a%20b/%C3%A9.md"
    entry = skill(resources="dynamic" if is_dynamic else files(file_entry(uri, FORM)))
    assert find_file_uri(entry, path) == uri


@pytest.mark.parametrize("resources", [ENTRY["resources"], "dynamic"])
@pytest.mark.parametrize(
    "path",
    [
        *("", "../other/SKILL.md", "a/../../x", "%2e%2e/x", "..%2fx", "/etc/passwd"),
        *("file:///etc/passwd", "skill://pdf2/x", "skill://pdf/../x", "x?y"),
    ],
)
def test_path_outside_the_skill_is_refused(path, resources):
    entry = skill(resources=resources)
    if path == "x?y" and resources == "dynamic":
        assert find_file_uri(entry, path) == f"{ROOT}/x%3Fy"
        return
    error = skill_error(find_file_uri, entry, path)
    assert (error.rule, error.skill, error.uri) == ("files", URI, path)


def read(*contents):
    return decode(ReadResourceResult, {"contents": list(contents)})


def test_file_has_exactly_one_content_of_text_or_bytes():
    text, blob = {"uri": URI, "text": "é"}, {"uri": URI, "blob": "/w=="}
    assert file_bytes(skill(), URI, read(text)) == "é".encode()
    assert file_bytes(skill(), URI, read(blob)) == b"\xff"
    for contents in ((), (text, text)):
        error = skill_error(file_bytes, skill(), FORMS, read(*contents))
        assert (error.rule, error.uri) == ("contents", FORMS)


def test_files_that_match_the_entry_are_accepted():
    check_file(skill(), URI, DOCUMENT)
    check_file(skill(), FORMS, FORM)
    assert split_document(DOCUMENT) == (
        "name: pdf\ndescription: Fills forms\n",
        "\nDo it.\n",
    )


@pytest.mark.rule("EXT-05")
@pytest.mark.parametrize(
    ("data", "rule"),
    [
        (FORM + b"x", "size"),
        (FORM[:-1], "size"),
        (b"", "size"),
        (b"B form.\n", "digest"),
    ],
)
def test_changed_file_is_refused_by_size_and_then_by_digest(data, rule):
    error = skill_error(check_file, skill(), FORMS, data)
    assert (error.rule, error.uri, error.skill) == (rule, FORMS, URI)


def with_document(data):
    return skill(resources=[file_entry(URI, data)])


@pytest.mark.rule("EXT-05")
@pytest.mark.parametrize(
    ("data", "why"),
    [
        (DOCUMENT.replace(b"Fills forms", b"Sends secrets"), "another 'description'"),
        (DOCUMENT.replace(b"---\n\n", b"license: x\n---\n\n"), "another 'license'"),
        (DOCUMENT.replace(b"pdf", b"PDF"), "another 'name'"),
        (b"Do it.\n", "frontmatter is not there"),
        (DOCUMENT.replace(b"pdf", b"*x"), "frontmatter"),
        (DOCUMENT + b"\xff", "not UTF-8"),
    ],
)
def test_document_with_another_frontmatter_is_refused(data, why):
    for entry in (with_document(data), skill(resources="dynamic")):
        error = skill_error(check_file, entry, URI, data)
        assert (error.rule, error.uri) == ("frontmatter", URI)
        assert why in str(error)


def test_digest_is_checked_before_the_frontmatter():
    data = DOCUMENT.replace(b"Fills forms", b"Sends forms")
    assert skill_error(check_file, skill(), URI, data).rule == "digest"


def test_only_the_size_limit_applies_to_dynamic_skill_files():
    entry = skill(resources="dynamic")
    check_entry(entry)
    check_file(entry, URI, DOCUMENT)
    check_file(entry, FORMS, b"anything")
    check_file(entry, FORMS, bytes(MAX_BYTES))
    error = skill_error(check_file, entry, FORMS, bytes(MAX_BYTES + 1))
    assert (error.rule, error.uri) == ("limit", FORMS)


def test_error_names_file_and_rule_and_can_be_pickled():
    error = skill_error(check_file, skill(), FORMS, b"")
    assert isinstance(error, RemoteProtocolError)
    assert str(error) == (
        f"'{FORMS}' is refused: it has 0 bytes, and should have {len(FORM)}"
    )
    copied = pickle.loads(pickle.dumps(error))
    assert (copied.rule, copied.uri, copied.skill) == ("size", FORMS, URI)


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
def test_frontmatter_is_between_two_marker_lines(text, head, rest):
    assert split_document(text.encode()) == (head, rest)


@pytest.mark.parametrize(
    "text",
    ["", "body", "\n---\na: 1\n---\n", "---\na: 1\n", "--- a: 1\n---\n", "---a\n---\n"],
)
def test_document_without_frontmatter_is_refused(text):
    with pytest.raises(FrontmatterError, match="is not there"):
        split_document(text.encode())


@pytest.mark.parametrize("end", ["---\n", "", "x" * 1_000_000])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
def test_length_of_the_frontmatter_is_limited(mark, end):
    longest = "a" * (MAX_FRONTMATTER - 1) + "\n"
    assert split_document(f"{mark}---\n{longest}---\n".encode()) == (longest, "")
    with pytest.raises(
        FrontmatterError, match=f"does not end within {MAX_FRONTMATTER}"
    ):
        split_document(f"{mark}---\na{longest}{end}".encode())


def difference(head, frontmatter):
    return find_difference(read_frontmatter(head), frontmatter)


@pytest.mark.parametrize(
    ("head", "frontmatter"),
    [
        ("name: pdf", {"name": "pdf"}),
        ("a: 'x'\nb: [1, {c: 2.5}]", {"a": "x", "b": [1, {"c": 2.5}]}),
        ("a:\nb: ~", {"a": None}),
        ("a: 1", {"a": 1, "b": None}),
        ("a: yes\nb: FALSE", {"a": True, "b": False}),
        ("a: 1.0\nb: 1.10", {"a": 1, "b": 1.1}),
        ("a: 2026-07-28", {"a": "2026-07-28"}),
        ("a: 2026-07-28 10:00:00", {"a": "2026-07-28 10:00:00"}),
        ("a: !!str 5", {"a": "5"}),
    ],
)
def test_equal_frontmatter_has_no_difference(head, frontmatter):
    assert difference(head, frontmatter) is None


@pytest.mark.parametrize(
    ("head", "frontmatter", "field"),
    [
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
    ],
)
def test_first_different_field_is_named(head, frontmatter, field):
    assert difference(head, frontmatter) == field


@pytest.mark.rule("EXT-05")
@pytest.mark.parametrize(
    ("head", "why"),
    [
        ("", "is not a mapping"),
        ("- a", "is not a mapping"),
        ("a: b: c", "is not valid YAML: 'mapping values"),
        ("a: \x00", "is not valid YAML: 'unreadable'"),
        ("a: 1\n...\nb: 2", "is not valid YAML"),
        ("[a]: 1", "is not valid YAML: 'found unhashable key'"),
        ("1: a", "has a value that JSON has not"),
        ("a: &x 1\nb: *x", "has an alias"),
        ("a: &x [*x]", "has an alias"),
        ("a: !!python/object/apply:os.getpid []", "python/object/apply:os.getpid"),
        ("a: !!python/name:os.getpid ''", "python/name:os.getpid"),
        ("a: !own x", "constructor for the tag '!own'"),
        ("a: !!set {x}", "has a value that JSON has not"),
        ("a: !!binary aGk=", "has a value that JSON has not"),
        ("a: !!int ''", "has a value that JSON has not"),
        ("a: .inf", "has a value that JSON has not"),
        ("a: 0b_", "has a value that JSON has not"),
        ("a: 1" + ":0" * 200 + ".0", "has a value that JSON has not"),
        ("a: " + "9" * 5_000, "has a value that JSON has not"),
        ("a: " + "[" * MAX_DEPTH, f"is nested more than {MAX_DEPTH} levels"),
        ("a: [" + "1," * MAX_NODES + "]", f"has more than {MAX_NODES} keys"),
    ],
)
def test_frontmatter_with_other_than_plain_data_is_refused(head, why):
    with pytest.raises(FrontmatterError) as caught:
        read_frontmatter(head)
    assert why in str(caught.value)


BOMBS = {
    "brackets": lambda size: "a: " + "[" * size,
    "items": lambda size: "a: [" + "1," * (size // 2) + "]",
    "aliases": lambda size: (
        "a: &a [x,x]\n"
        + "".join(
            f"b{i}: &b{i} [*{'a' if i == 0 else f'b{i - 1}'}]\n"
            for i in range(size // 70)
        )
    ),
    "merges": lambda size: (
        "a: &a {x: 1}\n"
        + "".join(f"b{i}: &b{i} {{<<: [*a, *a]}}\n" for i in range(size // 70))
    ),
    "one text": lambda size: "a: " + "x " * (size // 2),
    "comments": lambda size: "#\n" * (size // 2),
}


def read_or_refuse(head):
    with contextlib.suppress(FrontmatterError):
        read_frontmatter(head)


@pytest.mark.parametrize("bomb", BOMBS.values(), ids=BOMBS)
def test_frontmatter_cost_is_linear_in_its_length(bomb):
    assert grows_in_proportion(read_or_refuse, bomb, MAX_FRONTMATTER // 4)


def test_missing_pyyaml_is_reported_with_an_install_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(LocalProtocolError, match=r"pip install PyYAML$"):
        read_frontmatter("a: 1")

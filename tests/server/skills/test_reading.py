"""Reading skills from folders and mappings, and refusing invalid skills."""

import sys

import pytest

from mcpwire.errors import LocalProtocolError
from mcpwire.protocol.skills import MAX_FILES
from mcpwire.server.extensions.skills import Skills


def document(name, *lines):
    head = "\n".join([f"name: {name}", "description: What it does.", *lines])
    return f"---\n{head}\n---\nbody\n"


def write(folder, files):
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)


def entries(skills):
    return skills.list_skills({}, FakeRequest())["skills"]


class FakeInfo:
    principal = None


class FakeRequest:
    info = FakeInfo()


def paths(skills):
    """Return the URIs of all files, by skill."""
    return [[file["uri"] for file in entry["resources"]] for entry in entries(skills)]


def test_folder_is_searched_for_skills(tmp_path):
    write(
        tmp_path,
        {
            "notes/SKILL.md": document("notes"),
            "notes/more/a b.txt": "a",
            "notes/inner/SKILL.md": document("inner"),
            "notes/.git/config": "secret",
            "notes-2/SKILL.md": document("notes-2"),
            "acme/deep/SKILL.md": document("deep"),
            "README.md": "no skill",
            ".hidden/SKILL.md": document("hidden"),
        },
    )
    assert paths(Skills(tmp_path)) == [
        ["skill://acme/deep/SKILL.md"],
        [
            "skill://notes/SKILL.md",
            "skill://notes/inner/SKILL.md",
            "skill://notes/more/a%20b.txt",
        ],
        ["skill://notes-2/SKILL.md"],
    ]


def test_a_folder_may_be_one_skill(tmp_path):
    home = tmp_path / "notes"
    write(home, {"SKILL.md": document("notes"), "a.txt": "a"})
    assert paths(Skills(home)) == [["skill://notes/SKILL.md", "skill://notes/a.txt"]]
    assert paths(Skills(str(home))) == paths(Skills(home))


def test_mapping_may_contain_folders_or_files(tmp_path):
    write(tmp_path, {"SKILL.md": document("notes")})
    skills = Skills({"notes": tmp_path, "other": {"SKILL.md": document("other")}})
    assert paths(skills) == [["skill://notes/SKILL.md"], ["skill://other/SKILL.md"]]


@pytest.mark.attack("S19")
def test_links_that_leave_a_skill_are_skipped(tmp_path):
    write(tmp_path / "elsewhere", {"secret.txt": "secret"})
    home = tmp_path / "notes"
    write(home, {"SKILL.md": document("notes"), "a.txt": "a"})
    (home / "out.txt").symlink_to(tmp_path / "elsewhere/secret.txt")
    (home / "away").symlink_to(tmp_path / "elsewhere")
    (home / "in.txt").symlink_to(home / "a.txt")
    assert paths(Skills(home)) == [
        ["skill://notes/SKILL.md", "skill://notes/a.txt", "skill://notes/in.txt"]
    ]


def test_frontmatter_is_converted_to_json_values():
    head = """\
texts: b c
numbers: [1, -2.5, 1.0e+3]
truths: [true, yes, off]
nothing: ~
dates: [2026-07-28, 1.2.3]
lines: |
  b
  c
metadata: {k: v}"""
    [entry] = entries(Skills({"notes": {"SKILL.md": document("notes", head)}}))
    assert entry["frontmatter"] == {
        "name": "notes",
        "description": "What it does.",
        "texts": "b c",
        "numbers": [1, -2.5, 1000.0],
        "truths": [True, True, False],
        "nothing": None,
        "dates": ["2026-07-28", "1.2.3"],
        "lines": "b\nc\n",
        "metadata": {"k": "v"},
    }


REFUSED = {
    "no document": ({"a.txt": "a"}, "the skill 'notes' has no SKILL.md"),
    "no head": ({"SKILL.md": "body"}, "the head of its SKILL.md is not there"),
    "no YAML": (
        {"SKILL.md": "---\na: [\n---\n"},
        "the head of its SKILL.md is not valid YAML",
    ),
    "another name": ({"SKILL.md": document("other")}, "its folder is not called"),
    "too many files": (
        {"SKILL.md": document("notes"), **{f"{n}": "" for n in range(MAX_FILES)}},
        f"it has {MAX_FILES + 1} files, above {MAX_FILES}",
    ),
    "a path that leads out": (
        {"SKILL.md": document("notes"), "../x": ""},
        "it is not a file within the skill",
    ),
    "a path with a line break": (
        {"SKILL.md": document("notes"), "a\nb": ""},
        "it is not a file within the skill",
    ),
    "a reserved key": (
        {"SKILL.md": document("notes", "metadata: {io.modelcontextprotocol/x: 1}")},
        "its metadata has 'io.modelcontextprotocol/x'",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_skill_that_breaks_a_rule_is_not_served(case):
    files, problem = REFUSED[case]
    with pytest.raises(ValueError, match="the skill 'notes'") as caught:
        Skills({"notes": files})
    assert problem in str(caught.value)


def test_duplicate_skill_name_is_refused():
    source = {f"{above}/notes": {"SKILL.md": document("notes")} for above in "ab"}
    with pytest.raises(
        ValueError, match="two skills have one name: 'a/notes', 'b/notes'"
    ):
        Skills(source)


@pytest.mark.parametrize("metadata", ["metadata: {x: 1}", "metadata: text", "other: 1"])
def test_other_metadata_is_accepted(metadata):
    assert Skills({"notes": {"SKILL.md": document("notes", metadata)}})


def test_source_without_skills_is_refused(tmp_path):
    with pytest.raises(ValueError, match="found no skill in"):
        Skills(tmp_path)
    with pytest.raises(ValueError, match="found no skill in"):
        Skills({})
    with pytest.raises(NotADirectoryError):
        Skills(tmp_path / "nowhere")


OPTIONS = {
    "no scheme": {"uri": "skills/"},
    "no slash at the end": {"uri": "skill://x"},
    "no integer": {"ttl_ms": 1.5},
    "before now": {"ttl_ms": -1},
    "no page": {"page_size": 0},
}


@pytest.mark.parametrize("case", OPTIONS)
def test_invalid_option_is_refused(case):
    [name] = OPTIONS[case]
    with pytest.raises(ValueError, match=name):
        Skills({"notes": {"SKILL.md": document("notes")}}, **OPTIONS[case])


def test_list_for_a_principal_has_private_cache_scope():
    class RequestInfo:
        principal = object()

    class Request:
        info = RequestInfo()

    skills = Skills({"notes": {"SKILL.md": document("notes")}})
    assert skills.list_skills({}, Request())["cacheScope"] == "private"


def test_missing_yaml_is_reported_before_the_skill_is_read(monkeypatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(LocalProtocolError, match=r"pip install PyYAML$"):
        Skills({"notes": {}})

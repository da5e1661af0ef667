"""Reading skills from folders and mappings, and refusing invalid skills."""

import json
import subprocess
import sys

import pytest

from mcpwire.protocol.skills import MAX_BYTES, MAX_FILES
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


HEADS = {
    "texts": ("a: b c", {"a": "b c"}),
    "quoted": ("a: '1'\nb: \"true\"", {"a": "1", "b": "true"}),
    "numbers": ("a: 1\nb: -2.5\nc: 1.0e+3", {"a": 1, "b": -2.5, "c": 1000.0}),
    "truths": ("a: true\nb: False", {"a": True, "b": False}),
    "nothing": ("a:\nb: ~\nc: null", {"a": None, "b": None, "c": None}),
    "words of YAML 1.1": ("a: yes\nb: off", {"a": True, "b": False}),
    "dates and versions": (
        "a: 2026-07-28\nb: 1.2.3",
        {"a": "2026-07-28", "b": "1.2.3"},
    ),
    "lists": ("a: [1, x]\nb:\n- y", {"a": [1, "x"], "b": ["y"]}),
    "members": ("metadata: {k: v}", {"metadata": {"k": "v"}}),
    "several lines": ("a: |\n  b\n  c", {"a": "b\nc\n"}),
    "a dash": ("a: -x", {"a": "-x"}),
}


@pytest.mark.parametrize("case", HEADS)
def test_frontmatter_is_converted_to_json_values(case):
    lines, members = HEADS[case]
    source = {"notes": {"SKILL.md": document("notes", lines)}}
    [entry] = entries(Skills(source))
    described = {"name": "notes", "description": "What it does."}
    assert entry["frontmatter"] == {**described, **members}


REFUSED = {
    "no document": ({"a.txt": "a"}, "the skill 'notes' has no SKILL.md"),
    "no head": ({"SKILL.md": "body"}, "the head of its SKILL.md is not there"),
    "no UTF-8": ({"SKILL.md": b"---\n\xff"}, "the head of its SKILL.md is not UTF-8"),
    "no YAML": (
        {"SKILL.md": "---\na: [\n---\n"},
        "the head of its SKILL.md is not valid YAML",
    ),
    "no mapping": ({"SKILL.md": "---\n- a\n---\n"}, "SKILL.md is not a mapping"),
    "an empty head": ({"SKILL.md": "---\n---\n"}, "SKILL.md is not a mapping"),
    "an alias": (
        {"SKILL.md": document("notes", "a: &x [1]", "b: *x")},
        "SKILL.md has an alias",
    ),
    "an endless alias": (
        {"SKILL.md": document("notes", "a: &x [*x]")},
        "SKILL.md has an alias",
    ),
    "a key that is no text": (
        {"SKILL.md": document("notes", "[a]: 1")},
        "found unhashable key",
    ),
    "a type of its own": (
        {"SKILL.md": document("notes", "a: !x 1")},
        "for the tag '!x'",
    ),
    "another name": ({"SKILL.md": document("other")}, "its folder is not called"),
    "no name": ({"SKILL.md": "---\ndescription: d\n---\n"}, "is not a name of a skill"),
    "no description": ({"SKILL.md": "---\nname: notes\n---\n"}, "has no description"),
    "too many files": (
        {"SKILL.md": document("notes"), **{f"{n}": "" for n in range(MAX_FILES)}},
        f"it has {MAX_FILES + 1} files, above {MAX_FILES}",
    ),
    "too many bytes": (
        {"SKILL.md": document("notes"), "big": b"\0" * MAX_BYTES},
        "bytes, above",
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


@pytest.mark.parametrize(
    "name", ["Notes", "no--tes", "-notes", "notes-", "n" * 65, "a b"]
)
def test_invalid_skill_name_is_refused(name):
    with pytest.raises(ValueError, match="is not a name of a skill"):
        Skills({name: {"SKILL.md": document(json.dumps(name))}})


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


def test_error_for_missing_yaml_names_the_package():
    code = (
        "import sys; sys.modules['yaml'] = None\n"
        "from mcpwire.server.extensions.skills import Skills\n"
        "Skills({'notes': {'SKILL.md': '---'}})"
    )
    found = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert found.returncode == 1
    assert found.stderr.splitlines()[-1].endswith("pip install PyYAML")

"""Files and directories: read on each request, listed, completed, confined."""

import base64
import os
import sys

import pytest
from single_request import answer, code, result

from mcpwire.errors import InternalError
from mcpwire.server import log_limit, resources
from mcpwire.server.log_limit import LogLimit
from mcpwire.server.resources import Folder
from mcpwire.server.server import Server

SECRET = "the password"


@pytest.fixture
def root(tmp_path):
    """Return a folder beside a secret file, with symlinks in and out."""
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "data-2").mkdir()
    (tmp_path / "data-2" / "near.txt").write_text(SECRET)
    root = tmp_path / "data"
    (root / "deep" / "er").mkdir(parents=True)
    (root / ".git").mkdir()
    (root / "a.txt").write_text("a")
    (root / "b c.md").write_text("# b")
    (root / "deep" / "er" / "x.bin").write_bytes(b"\x00\xff")
    (root / "deep" / "Makefile").write_text("all:")
    (root / ".env").write_text(SECRET)
    (root / ".git" / "config").write_text(SECRET)
    (root / "in.txt").symlink_to("a.txt")
    (root / "linked").symlink_to("deep")
    (root / "itself").symlink_to(".")
    (root / "out.txt").symlink_to(tmp_path / "secret.txt")
    (root / "away").symlink_to(tmp_path)
    (root / "to-hidden.txt").symlink_to(".env")
    (root / "loop").symlink_to("loop")
    (root / "broken").symlink_to("nowhere")
    os.mkfifo(root / "pipe")
    return root


def served(root, **options):
    server = Server("s")
    server.add_directory("file:///data", root, **options)
    return server


async def read(server, uri):
    [found] = (await result(server, "resources/read", uri=uri))["contents"]
    return found


FILES = {
    "a.txt": {"mimeType": "text/plain", "text": "a"},
    "b%20c.md": {"mimeType": "text/markdown", "text": "# b"},
    "deep/Makefile": {"mimeType": "text/plain", "text": "all:"},
    "in.txt": {"mimeType": "text/plain", "text": "a"},
    "linked/Makefile": {"mimeType": "text/plain", "text": "all:"},
    "deep/er/x.bin": {
        "mimeType": "application/octet-stream",
        "blob": base64.b64encode(b"\x00\xff").decode(),
    },
}


@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("path", FILES)
async def test_every_file_is_readable_by_its_path(root, path, listed):
    uri = f"file:///data/{path}"
    assert await read(served(root, listed=listed), uri) == {"uri": uri, **FILES[path]}


OUTSIDE = {
    "a link out": "out.txt",
    "a folder linked out": "away/secret.txt",
    "a folder with the same prefix": "away/data-2/near.txt",
    "out of the folder and back in": "away/data/a.txt/..",
    "up": "../secret.txt",
    "up, encoded": "%2e%2e/secret.txt",
    "up, slash encoded": "..%2Fsecret.txt",
    "up from below": "deep/../../secret.txt",
    "an absolute path": "/etc/passwd",
    "an absolute path, encoded": "%2Fetc%2Fpasswd",
    "backslashes": "..%5Csecret.txt",
    "NUL": "a.txt%00",
    "hidden": ".env",
    "in a hidden folder": ".git/config",
    "a link to a hidden file": "to-hidden.txt",
    "a folder": "deep",
    "the folder itself": "itself",
    "a folder with its slash": "deep/",
    "two slashes": "deep//Makefile",
    "here": "./a.txt",
    "nothing": "nothing.txt",
    "a file as a folder": "a.txt/b",
    "a link to itself": "loop",
    "a link to nothing": "broken",
    "a pipe": "pipe",
    "a name too long": "x" * 300,
}


@pytest.mark.rule("RES-09")
@pytest.mark.attack("S19")
@pytest.mark.parametrize("has_descriptors", [True, False])
@pytest.mark.parametrize("swapped", ["deep", "deep/Makefile"])
def test_symlink_swapped_in_after_the_check_is_not_followed(
    root, swapped, has_descriptors, monkeypatch
):
    if not has_descriptors:
        monkeypatch.setattr(os, "supports_dir_fd", frozenset())
    folder = Folder(root)
    found = folder.locate("deep/Makefile")
    (root.parent / "Makefile").write_text(SECRET)
    (root / swapped).rename(root / "moved")
    (root / swapped).symlink_to(root.parent if swapped == "deep" else "../a.txt")
    monkeypatch.setattr(folder, "locate", lambda path: found)
    # Without directory descriptors only the last component is checked again.
    is_seen = not has_descriptors and swapped == "deep"
    assert (folder.read_bytes("deep/Makefile") == SECRET.encode()) is is_seen


@pytest.mark.rule("RES-06", "RES-08", "RES-09")
@pytest.mark.attack("S19")
@pytest.mark.parametrize("listed", [True, False])
@pytest.mark.parametrize("case", OUTSIDE)
async def test_paths_outside_the_folder_or_hidden_are_refused(root, case, listed):
    uri = f"file:///data/{OUTSIDE[case]}"
    found = await answer(served(root, listed=listed), "resources/read", uri=uri)
    assert found["error"]["code"] == -32602
    assert found["error"]["data"] == {"uri": uri}


@pytest.mark.rule("RES-09")
@pytest.mark.attack("S19")
@pytest.mark.parametrize(
    "path", ["", "/", "..", ".", "../a", "a/../b", "a\\b", "/etc/passwd", "a\0", "a//b"]
)
def test_folder_rejects_unsafe_paths_itself(root, path):
    folder = Folder(root)
    assert folder.read(path) is None
    assert folder.locate(path) is None


async def test_hidden_option_serves_hidden_files(root):
    server = served(root, hidden=True)
    for path in (".env", ".git/config", "to-hidden.txt"):
        assert (await read(server, f"file:///data/{path}"))["text"] == SECRET
    assert await code(server, "resources/read", uri="file:///data/out.txt") == -32602


async def test_files_are_listed_in_order_with_their_types(root):
    server = served(root, tags=["t"], description="D", title="T")
    listed = (await result(server, "resources/list"))["resources"]
    assert [(each["name"], each.get("mimeType")) for each in listed] == [
        ("a.txt", "text/plain"),
        ("b c.md", "text/markdown"),
        ("in.txt", "text/plain"),
        ("deep/Makefile", None),
        ("deep/er/x.bin", None),
    ]
    assert listed[1]["uri"] == "file:///data/b%20c.md"
    assert all("description" not in each and "title" not in each for each in listed)
    assert server.resources["file:///data/a.txt"].component.tags == {"t"}
    [template] = (await result(server, "resources/templates/list"))["resourceTemplates"]
    assert template == {
        "uriTemplate": "file:///data/{path*}",
        "name": "data",
        "title": "T",
        "description": "D",
    }


async def test_listed_false_serves_a_template_without_a_list(root):
    server = served(root, listed=False, name="mine")
    assert (await result(server, "resources/list"))["resources"] == []
    [template] = (await result(server, "resources/templates/list"))["resourceTemplates"]
    assert template["name"] == "mine"


def test_too_many_files_are_not_listed(root, monkeypatch):
    monkeypatch.setattr(resources, "MAX_LISTED", 2)
    with pytest.raises(ValueError, match="there are more than 2 files in"):
        served(root)
    assert served(root, listed=False)


async def test_each_read_sees_the_current_files(root):
    server = served(root)
    (root / "a.txt").write_text("changed")
    (root / "new.txt").write_text("new")
    assert (await read(server, "file:///data/a.txt"))["text"] == "changed"
    assert (await read(server, "file:///data/new.txt"))["text"] == "new"
    (root / "a.txt").unlink()
    (root / "a.txt").symlink_to(root.parent / "secret.txt")
    assert await code(server, "resources/read", uri="file:///data/a.txt") == -32602


async def test_reading_a_file_above_max_bytes_is_an_error(root):
    server = served(root, max_bytes=3)
    found = await answer(server, "resources/read", uri="file:///data/deep/Makefile")
    assert found["error"]["code"] == -32603
    assert found["error"]["message"] == "the resource is larger than 3 bytes"
    assert (await read(server, "file:///data/b%20c.md"))["text"] == "# b"
    with pytest.raises(InternalError):
        Folder(root, max_bytes=3).read("deep/Makefile")


@pytest.mark.attack("S19")
@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("", ["a.txt", "b c.md", "deep/", "in.txt", "itself/", "linked/", "pipe"]),
        ("b", ["b c.md"]),
        ("deep", ["deep/"]),
        ("deep/", ["deep/Makefile", "deep/er/"]),
        ("linked/er/", ["linked/er/x.bin"]),
        (".e", []),
        ("../", []),
        ("../d", []),
        ("away/", []),
        ("/", []),
        ("/etc/", []),
        ("a.txt/", []),
        ("nothing/", []),
        ("deep/\0", []),
    ],
)
async def test_paths_are_completed_within_the_folder(root, typed, found):
    completed = await result(
        served(root),
        "completion/complete",
        ref={"type": "ref/resource", "uri": "file:///data/{path*}"},
        argument={"name": "path", "value": typed},
    )
    assert completed["completion"]["values"] == found


def test_missing_folder_is_refused(root):
    with pytest.raises(NotADirectoryError, match=r"the folder .* does not exist"):
        served(root / "nowhere")
    with pytest.raises(NotADirectoryError, match=r"the folder .* does not exist"):
        served(root / "a.txt")


def test_folder_repr_shows_its_path(root):
    assert repr(Folder(root)) == f"Folder({str(root.resolve())!r})"


async def test_each_read_of_a_single_file_sees_its_current_content(server, root):
    server.add_file("notes://a", root / "a.txt", description="D")
    server.add_file("notes://in", root / "in.txt", name="n", mime_type="text/x")
    listed = (await result(server, "resources/list"))["resources"]
    assert listed == [
        {
            "uri": "notes://a",
            "name": "a.txt",
            "description": "D",
            "mimeType": "text/plain",
        },
        {"uri": "notes://in", "name": "n", "mimeType": "text/x"},
    ]
    assert (await read(server, "notes://a"))["text"] == "a"
    (root / "a.txt").write_text("b")
    assert (await read(server, "notes://in"))["text"] == "b"
    (root / "a.txt").unlink()
    assert await code(server, "resources/read", uri="notes://a") == -32602


async def test_file_replaced_by_a_pipe_is_not_found(server, root):
    server.add_file("notes://a", root / "a.txt")
    (root / "a.txt").unlink()
    os.mkfifo(root / "a.txt")
    assert await code(server, "resources/read", uri="notes://a") == -32602


def test_missing_or_irregular_file_is_refused(server, root):
    for path in ("nothing.txt", "deep", "pipe"):
        with pytest.raises(FileNotFoundError, match=r"the file .* does not exist"):
            server.add_file("notes://a", root / path)


any_name = pytest.mark.skipif(
    sys.platform != "linux", reason="the file system does not allow such names"
)


@any_name
@pytest.mark.attack("X09")
async def test_non_utf8_names_are_omitted_with_one_log_line(root, caplog, monkeypatch):
    monkeypatch.setattr(LogLimit, "INTERVAL_S", 60.0)
    monkeypatch.setattr(log_limit, "shared", LogLimit())
    (root / "fold\udce9r").mkdir()
    for path in ("caf\udce9.txt", "deep/\udcff.txt", "fold\udce9r/in.txt"):
        (root / path).write_text("x")
    (root / "link.txt").symlink_to("caf\udce9.txt")
    server = served(root)
    [line] = caplog.messages
    assert line.endswith("is left out, its name is not UTF-8: 'fold\\udce9r'")
    listed = (await result(server, "resources/list"))["resources"]
    found = {each["uri"].removeprefix("file:///data/") for each in listed}
    assert found == FILES.keys() - {"linked/Makefile"}
    # Also files created later.
    (root / "b\udce9.txt").write_text("x")
    reference = {"type": "ref/resource", "uri": "file:///data/{path*}"}
    argument = {"name": "path", "value": "b"}
    found = await result(
        server, "completion/complete", ref=reference, argument=argument
    )
    assert found["completion"]["values"] == ["b c.md"]
    for path in ("caf%E9.txt", "link.txt", "b%E9.txt"):
        uri = f"file:///data/{path}"
        assert await code(server, "resources/read", uri=uri) == -32602
    assert len(caplog.messages) == 1


@any_name
@pytest.mark.attack("X09")
async def test_folder_with_a_non_utf8_name_is_served(tmp_path):
    folder = tmp_path / "fold\udce9r"
    folder.mkdir()
    (folder / "a.txt").write_text("a")
    server = served(folder)
    assert (await read(server, "file:///data/a.txt"))["text"] == "a"
    [template] = (await result(server, "resources/templates/list"))["resourceTemplates"]
    assert template["name"] == "files"

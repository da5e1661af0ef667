"""Images, audio and files become content blocks."""

import base64

import pytest

from mcpwire.server.authoring.results import Audio, File, Image, is_text

PNG = b"\x89PNG\r\n\x1a\nrest"
WAV = b"RIFF\x00\x00\x00\x00WAVEfmt "


def test_image_type_is_detected_from_its_bytes():
    assert Image(PNG).block() == {
        "type": "image",
        "data": base64.b64encode(PNG).decode(),
        "mimeType": "image/png",
    }


def test_audio_type_is_detected_from_its_bytes():
    block = Audio(WAV).block()
    assert (block["type"], block["mimeType"]) == ("audio", "audio/wav")


@pytest.mark.parametrize(
    ("name", "mime_type"),
    [("a.webp", "image/webp"), ("a.SVG", "image/svg+xml"), ("a.jpg", "image/jpeg")],
)
def test_file_extension_precedes_the_bytes(tmp_path, name, mime_type):
    path = tmp_path / name
    path.write_bytes(PNG)
    assert Image(path=str(path)).block()["mimeType"] == mime_type


def test_explicit_media_type_precedes_the_bytes():
    assert Image(PNG, mime_type="image/x-mine").block()["mimeType"] == "image/x-mine"


@pytest.mark.parametrize("make", [lambda: Image(b"??"), lambda: Audio(PNG)])
def test_undetectable_bytes_need_a_mime_type(make):
    with pytest.raises(ValueError, match=r"needs a media type .* give mime_type="):
        make().block()


@pytest.mark.parametrize("given", [{}, {"data": b"x", "path": "y"}])
def test_image_needs_exactly_one_of_data_and_path(given):
    with pytest.raises(ValueError, match="Image needs either data or a path"):
        Image(**given)


def test_image_refuses_a_str():
    with pytest.raises(TypeError, match="Image needs bytes, got str"):
        Image("a.png")


def test_text_file_is_embedded_as_text_without_its_folder(tmp_path):
    path = tmp_path / "a b.md"
    path.write_text("# Hi")
    assert File(path=path).block() == {
        "type": "resource",
        "resource": {
            "uri": "file:///a%20b.md",
            "mimeType": "text/markdown",
            "text": "# Hi",
        },
    }


def test_file_whose_name_is_not_utf_8_is_embedded_with_a_valid_uri(tmp_path):
    path = tmp_path / "caf\udce9"
    path.write_bytes(b"x")
    assert File(path=path).contents()["uri"] == "file:///caf%E9"


@pytest.mark.parametrize(
    ("file", "mime_type"),
    [
        (File(b"\xff", mime_type="text/plain"), "text/plain"),
        (File(b"%PDF-1.7"), "application/pdf"),
        (File(b"RIFF____????"), "application/octet-stream"),
        (File(bytearray(b"??")), "application/octet-stream"),
    ],
)
def test_binary_file_is_embedded_as_a_blob(file, mime_type):
    contents = file.contents("test://it")
    assert contents == {
        "uri": "test://it",
        "mimeType": mime_type,
        "blob": base64.b64encode(file.read()).decode(),
    }


def test_unnamed_file_has_a_default_uri():
    assert File(b"x").contents()["uri"] == "file:///data"
    assert File(b"x", uri="test://own").contents("test://other")["uri"] == "test://own"


@pytest.mark.parametrize(
    ("mime_type", "expected"),
    [
        ("text/plain; charset=utf-8", True),
        ("application/JSON", True),
        ("application/ld+json", True),
        ("image/png", False),
    ],
)
def test_text_media_types_are_recognised(mime_type, expected):
    assert is_text(mime_type) is expected


def test_the_bytes_are_not_in_the_repr():
    assert "PNG" not in repr(Image(PNG))

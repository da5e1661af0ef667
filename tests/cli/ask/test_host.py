"""Who answers a server: pages that a call needs, and what is never shown."""

from types import SimpleNamespace

import pytest

from mcpwire import UrlElicitationRequired
from mcpwire.cli.interactive import Host
from mcpwire.cli.options import Options
from mcpwire.cli.output import Output

PAGE = {"mode": "url", "message": "m", "url": "https://example.com/a"}


@pytest.fixture
def attended(person, monkeypatch):
    """Make a host with a person who types what a test says."""

    def make(*typed):
        monkeypatch.setattr(Host, "_is_attended", True)
        client = SimpleNamespace(protocol_version="2025-11-25", server_info=None)
        session = SimpleNamespace(
            options=Options(),
            output=Output(),
            signals=None,
            client=client,
            target="some-server",
        )
        host = Host(session)
        host._person = person(*typed)
        return host

    return make


def required(data):
    return UrlElicitationRequired("x", code=-32042, data=data)


@pytest.mark.parametrize(
    ("typed", "again"),
    [
        (("y", "", "r"), True),
        (("y", "", "what", "R"), True),
        (("y", "", "c"), False),
        (("y", "", None), False),
        (("d",), False),
        (("c",), False),
        ((None,), False),
    ],
)
async def test_a_call_is_made_again_only_where_that_is_wanted(attended, typed, again):
    host = attended(*typed)
    assert await host.visit_all(required({"elicitations": [PAGE]})) == again
    assert host._person.typed == []
    assert "The server* asks you to visit" in host._person.text


async def test_all_pages_are_agreed_to_one_by_one(attended):
    host = attended("y", "", "d")
    assert not await host.visit_all(required({"elicitations": [PAGE, PAGE, PAGE]}))
    assert host._person.text.count("  URL ") == 2


@pytest.mark.rule("ELIC-13")
@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {"elicitations": []},
        {"elicitations": 3},
        {"elicitations": [3]},
        {"elicitations": [{**PAGE, "url": "https://user@example.com/"}]},
        {"elicitations": [{**PAGE, "url": "file:///etc/passwd"}]},
        {"elicitations": [{**PAGE, "url": "javascript:alert(1)"}]},
    ],
)
async def test_pages_that_must_not_be_shown_are_not(attended, data):
    host = attended()
    assert not await host.visit_all(required(data))
    assert host._person.shown == []


async def test_a_program_answers_no_more_than_it_may(monkeypatch, asker):
    import sys

    from mcpwire import InternalError
    from mcpwire.cli import interactive as models
    from mcpwire.types import CreateMessageRequestParams, SamplingMessage, TextContent

    monkeypatch.setattr(models, "MAX_ANSWER", 10)
    params = CreateMessageRequestParams([SamplingMessage("user", TextContent("x"))], 5)
    command = [sys.executable, "-S", "-c", "print('x' * 11)"]
    with pytest.raises(InternalError, match="too much"):
        await models.ask_program(params, command, asker)


def test_what_a_model_is_asked_is_written_with_who_says_it():
    from mcpwire.cli.interactive import asked_text
    from mcpwire.types import CreateMessageRequestParams, decode

    image = {"type": "image", "data": "eA==", "mimeType": "image/png"}
    messages = [
        {"role": "user", "content": {"type": "text", "text": "a"}},
        {"role": "assistant", "content": [{"type": "text", "text": "b"}, image]},
    ]
    raw = {"messages": messages, "maxTokens": 5}
    params = decode(CreateMessageRequestParams, raw)
    assert asked_text(params) == "user: a\nassistant: b\nassistant: [image]"

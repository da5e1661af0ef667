"""Who answers a server: pages that a call needs, and what is never shown."""

from types import SimpleNamespace

import pytest

from mcpwire import UrlElicitationRequired
from mcpwire.cli.interactive import RequestHandlers
from mcpwire.cli.options import Options
from mcpwire.cli.output import Output

PAGE = {"mode": "url", "message": "m", "url": "https://example.com/a"}


@pytest.fixture
def attended(person, monkeypatch):
    """Make handlers with a person who types what a test says."""

    def make(*typed):
        monkeypatch.setattr(RequestHandlers, "_can_prompt", True)
        client = SimpleNamespace(protocol_version="2025-11-25", server_info=None)
        session = SimpleNamespace(
            options=Options(),
            output=Output(),
            signals=None,
            client=client,
            target="some-server",
        )
        handlers = RequestHandlers(session)
        handlers._terminal = person(*typed)
        return handlers

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
    handlers = attended(*typed)
    assert (
        await handlers.visit_required_urls(required({"elicitations": [PAGE]})) == again
    )
    assert handlers._terminal.typed == []
    assert "The server* asks you to visit" in handlers._terminal.text


async def test_all_pages_are_agreed_to_one_by_one(attended):
    handlers = attended("y", "", "d")
    assert not await handlers.visit_required_urls(
        required({"elicitations": [PAGE, PAGE, PAGE]})
    )
    assert handlers._terminal.text.count("  URL ") == 2


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
    handlers = attended()
    assert not await handlers.visit_required_urls(required(data))
    assert handlers._terminal.shown == []


async def test_a_program_answers_no_more_than_it_may(monkeypatch, asker):
    import sys

    from mcpwire import InternalError
    from mcpwire.cli import interactive as models
    from mcpwire.types import CreateMessageRequestParams, SamplingMessage, TextContent

    monkeypatch.setattr(models, "MAX_ANSWER_BYTES", 10)
    params = CreateMessageRequestParams([SamplingMessage("user", TextContent("x"))], 5)
    command = [sys.executable, "-S", "-c", "print('x' * 11)"]
    with pytest.raises(InternalError, match="too much"):
        await models.run_program(params, command, asker)


def test_what_a_model_is_asked_is_written_with_who_says_it():
    from mcpwire.cli.interactive import request_text
    from mcpwire.types import CreateMessageRequestParams, decode

    image = {"type": "image", "data": "eA==", "mimeType": "image/png"}
    messages = [
        {"role": "user", "content": {"type": "text", "text": "a"}},
        {"role": "assistant", "content": [{"type": "text", "text": "b"}, image]},
    ]
    raw = {"messages": messages, "maxTokens": 5}
    params = decode(CreateMessageRequestParams, raw)
    assert request_text(params) == "user: a\nassistant: b\nassistant: [image]"

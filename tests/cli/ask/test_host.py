"""Handlers of a server's requests: required URLs, samples and unsafe data."""

from types import SimpleNamespace

import pytest

from mcpwire import UrlElicitationRequired
from mcpwire.cli.interactive import RequestHandlers
from mcpwire.cli.options import Options
from mcpwire.cli.output import Output

PAGE = {"mode": "url", "message": "m", "url": "https://example.com/a"}


@pytest.fixture
def attended(person, monkeypatch):
    """Return a function that makes handlers with a fake user at the terminal."""

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
    ("typed", "retries"),
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
async def test_call_is_retried_only_if_the_user_agrees(attended, typed, retries):
    handlers = attended(*typed)
    assert (
        await handlers.visit_required_urls(required({"elicitations": [PAGE]}))
        == retries
    )
    assert handlers._terminal.typed == []
    assert "The server* asks you to visit" in handlers._terminal.text


async def test_each_url_needs_its_own_consent(attended):
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
async def test_invalid_or_unsafe_urls_are_not_shown(attended, data):
    handlers = attended()
    assert not await handlers.visit_required_urls(required(data))
    assert handlers._terminal.shown == []


async def test_sampling_program_output_is_limited_in_size(monkeypatch, requester):
    import asyncio
    import sys

    from mcpwire import InternalError
    from mcpwire.cli import interactive as models
    from mcpwire.types import CreateMessageRequestParams, SamplingMessage, TextContent

    monkeypatch.setattr(models, "MAX_ANSWER_BYTES", 10)
    params = CreateMessageRequestParams([SamplingMessage("user", TextContent("x"))], 5)
    command = [sys.executable, "-S", "-c", "print('x' * 11)"]
    with pytest.raises(InternalError, match="too long"):
        await models.run_program(params, command, requester)
    endless = [sys.executable, "-S", "-c", "while True: print('x' * 10_000)"]
    async with asyncio.timeout(20):
        with pytest.raises(InternalError, match="too long"):
            await models.run_program(params, endless, requester)


def test_sampling_request_text_has_the_role_of_each_message():
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

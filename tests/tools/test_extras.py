"""Resources and prompts as tools."""

import pytest

from mcpwire.tools.results import EXTRAS, extra_tools
from mcpwire.types import (
    BlobResourceContents,
    GetPromptResult,
    PromptMessage,
    ReadResourceResult,
    Resource,
    ServerCapabilities,
    TextContent,
    TextResourceContents,
    encode,
)
from mcpwire.types.lifecycle import PromptsCapability, ResourcesCapability

BOTH = frozenset({"resources", "prompts"})
ALL = ServerCapabilities(resources=ResourcesCapability(), prompts=PromptsCapability())


@pytest.mark.system("A74")
@pytest.mark.parametrize(
    ("capabilities", "wanted", "names"),
    [
        (ALL, BOTH, list(EXTRAS)),
        (ALL, {"resources"}, ["mcp_list_resources", "mcp_read_resource"]),
        (ALL, {"prompts"}, ["mcp_list_prompts", "mcp_get_prompt"]),
        (ALL, (), []),
        (ServerCapabilities(), BOTH, []),
        (
            ServerCapabilities(prompts=PromptsCapability()),
            BOTH,
            ["mcp_list_prompts", "mcp_get_prompt"],
        ),
        (None, BOTH, []),
    ],
)
def test_a_server_has_those_that_it_can_do(capabilities, wanted, names):
    found = extra_tools(capabilities, frozenset(wanted))
    assert [tool.name for tool in found] == names


@pytest.mark.system("A74")
def test_a_list_is_data_and_text():
    result = EXTRAS["mcp_list_resources"].result([Resource("mem://ä", "ä")])
    assert result.structured_content == {"resources": [{"uri": "mem://ä", "name": "ä"}]}
    assert result.text == '{"resources": [{"uri": "mem://ä", "name": "ä"}]}'


@pytest.mark.system("A74")
def test_what_is_read_is_text_or_comes_whole():
    blob = BlobResourceContents("mem://b", "AAE=")
    result = EXTRAS["mcp_read_resource"].result(
        ReadResourceResult([TextResourceContents("mem://a", "hi"), blob])
    )
    assert [encode(block) for block in result.content] == [
        {"type": "text", "text": "hi"},
        {"type": "resource", "resource": {"uri": "mem://b", "blob": "AAE="}},
    ]


@pytest.mark.system("A74")
def test_a_prompt_is_its_messages():
    messages = [PromptMessage("user", TextContent("hi"))]
    result = EXTRAS["mcp_get_prompt"].result(GetPromptResult(messages))
    assert result.text == "hi"
    assert result.structured_content == {
        "messages": [{"role": "user", "content": {"type": "text", "text": "hi"}}]
    }

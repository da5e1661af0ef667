"""An in-memory server with all capabilities, for tests of groups."""

from fakes import SILENCE, FakeServer, text

TOOL = {"name": "x", "inputSchema": {"type": "object"}}


def hang_up(_, fake):
    fake.die()
    return SILENCE


METHODS = {
    "tools/list": lambda *_: {"tools": [TOOL]},
    "tools/call": lambda params, _: {
        **text(params["name"]),
        "isError": params["name"] == "bad",
    },
    "resources/list": lambda *_: {"resources": [{"uri": "a://1", "name": "one"}]},
    "resources/templates/list": lambda *_: {
        "resourceTemplates": [{"uriTemplate": "a://{n}", "name": "any"}]
    },
    "resources/read": lambda params, _: {
        "contents": [{"uri": params["uri"], "text": "t"}]
    },
    "resources/subscribe": lambda *_: {},
    "resources/unsubscribe": lambda *_: {},
    "prompts/list": lambda *_: {"prompts": [{"name": "p"}]},
    "prompts/get": lambda params, _: {
        "messages": [{"role": "user", "content": {"type": "text", "text": str(params)}}]
    },
    "completion/complete": lambda params, _: {
        "completion": {"values": [params["ref"]["type"], params["argument"]["value"]]}
    },
    "logging/setLevel": lambda *_: {},
}

CAPABILITIES = {
    "tools": {},
    "resources": {"subscribe": True},
    "prompts": {},
    "completions": {},
    "logging": {},
}


def server(methods=None, **members):
    given = {"capabilities": CAPABILITIES, **members}
    return FakeServer({**METHODS, **(methods or {})}, **given)

"""How a server responds to raw bytes; each function is a case in its own session."""

import json
from collections.abc import Callable
from typing import Any, Final

from record import raw
from record.raw import META

ERAS: Final = {"session": "2025-11-25", "stateless": "2026-07-28"}
GROUPS: Final = tuple(
    f"server-{wire}-{era}" for wire in ("stdio", "http") for era in ERAS
)
CASES: Final[dict[str, tuple[Callable[[Any], None], tuple[str, ...], bool]]] = {}


def case(only: str = "", *, opens: bool = True) -> Callable[[Any], Any]:
    """Register a case, for groups with these words in their name."""

    def add(body: Any) -> Any:
        words = set(only.split())
        groups = tuple(group for group in GROUPS if words <= set(group.split("-")))
        CASES[body.__name__] = body, groups, opens
        return body

    return add


def make(group: str) -> dict[str, Any]:
    _, wire, era = group.split("-")
    record = {}
    with raw.opened(wire, ERAS[era]) as c:
        for name, (body, groups, opens) in CASES.items():
            if group in groups:
                c.begin(name)
                if opens and not c.is_stateless:
                    c.handshake()
                    c.came = []
                body(c)
                record[name] = {"came": c.came}
    return record


# Opening...


@case(opens=False)
def opening(c):
    c.handshake()


@case("session", opens=False)
def versions(c):
    for version in (
        "2024-11-05",
        "2025-03-26",
        "2025-06-18",
        "2026-07-28",
        "1999-01-01",
    ):
        c.ask(
            "initialize",
            {
                "protocolVersion": version,
                "capabilities": {},
                "clientInfo": {"name": "raw", "version": "1"},
            },
        )


@case("stdio session", opens=False)
def older_revisions(c):
    for version in ("2024-11-05", "2025-03-26", "2025-06-18"):
        c.handshake(version)
        c.call("weather", city="Rome")
        c.call("blocks")
        c.call("add", a="two")
        c.ask("tools/list")


@case("session", opens=False)
def malformed_openings(c):
    c.ask("initialize")
    c.ask("initialize", {"protocolVersion": 7})
    c.ask("tools/list")


@case()
def pings(c):
    c.ask("ping")
    c.ask("server/discover")


@case("stateless")
def revisions_that_are_unknown(c):
    c.meta = {META + "protocolVersion": "1999-01-01"}
    message = c.message("tools/list", None, is_request=True)
    message["params"]["_meta"][META + "protocolVersion"] = "1999-01-01"
    c.exchange(message)
    message = c.message("tools/list", None, is_request=True)
    del message["params"]["_meta"][META + "clientCapabilities"]
    c.exchange(message)


# Bytes...


@case()
def bytes_that_are_no_messages(c):
    for data in (
        b"{no JSON}\n",
        b"[]\n",
        b"7\n",
        b'{"id":1}\n',
        b'{"jsonrpc":"1.0","id":1,"method":"ping"}\n',
    ):
        c.send(data)
    c.send(b'{"jsonrpc":"2.0","id":null,"method":"ping"}\n')
    c.send(b'{"jsonrpc":"2.0","id":"x","method":7}\n')
    c.send(b'{"jsonrpc":"2.0","id":"y","method":"ping","params":[1]}\n')


@case()
def unknown_methods(c):
    c.ask("vendor/nothing")
    c.ask("vendor/echo", {"value": [1]})
    c.send_notification("notifications/vendor", {"a": 1})


# Tools...


@case()
def lists_of_tools(c):
    page = c.ask("tools/list")
    while page and "nextCursor" in page:
        page = c.ask("tools/list", {"cursor": page["nextCursor"]})
    c.ask("tools/list", {"cursor": "no cursor"})
    c.ask("tools/list", {"cursor": 7})


@case()
def results(c):
    c.call("add", a=2, b=3)
    c.call("add", a=2)
    c.call("weather", city="Rome")
    c.call("blocks")
    c.call("plain", value="as it is")
    c.call("visit")
    c.call("visit")


@case()
def calls_that_fail(c):
    for how in ("tool", "rpc", "other"):
        c.call("fail", how=how)
    c.call("unfit")
    c.call("late")
    c.call("nothing")
    c.call("secret")
    c.call("add", a="two", b=-1, c=None)
    c.call("add")
    c.ask("tools/call", {"name": 7})
    c.ask("tools/call")
    c.ask("tools/call", {"name": "add", "arguments": [1]})


@case()
def progress_and_logs(c):
    c.call("work")
    c.meta = {"progressToken": "t-1"}
    c.call("work")
    if c.is_stateless:
        c.meta = {META + "logLevel": "info"}
        c.call("work")
        c.ask("logging/setLevel", {"level": "debug"})
    else:
        c.ask("logging/setLevel", {"level": "debug"})
        c.call("work")
        c.ask("logging/setLevel", {"level": "loud"})
        c.ask("logging/setLevel", {"level": "emergency"})


@case()
def given_up(c):
    c.meta = {"progressToken": "t-2"}
    started = c.start("slow")
    c.give_up(started)
    c.call("gone")


# Questions...


def rounds(c, what, answers=None):
    """Call the tool; repeat the call with answers while the server requires input."""
    params = {"name": "ask", "arguments": {"what": what}}
    answers = answers or c.answers
    result = c.ask("tools/call", params)
    while result and result.get("resultType") == "input_required":
        given = {
            key: answers[question["method"]]
            for key, question in (result.get("inputRequests") or {}).items()
        }
        again = {"inputResponses": given, "requestState": result["requestState"]}
        result = c.ask("tools/call", params | again)


@case()
def questions(c):
    for what in ("form", "value", "url", "require", "sample", "roots", "can"):
        rounds(c, [what])
    rounds(c, ["sample", "value", "roots"])


@case()
def questions_that_are_declined(c):
    c.answers = {**raw.ANSWERS, "elicitation/create": {"action": "decline"}}
    rounds(c, ["value"])
    c.answers = {
        **raw.ANSWERS,
        "elicitation/create": {"action": "accept", "content": {"value": "x"}},
    }
    rounds(c, ["value"])
    if not c.is_stateless:
        c.answers = {"roots/list": {"code": -1, "message": "not now"}}
        rounds(c, ["roots"])


@case(opens=False)
def questions_that_cannot_be_asked(c):
    c.capabilities = {}
    if not c.is_stateless:
        c.handshake()
    for what in ("form", "url", "sample", "roots", "can"):
        rounds(c, [what])


@case("stateless")
def states_that_are_forged(c):
    params = {"name": "ask", "arguments": {"what": ["value"]}}
    c.ask("tools/call", {**params, "requestState": "forged", "inputResponses": {}})
    c.ask(
        "tools/call",
        {
            **params,
            "inputResponses": {"count": {"action": "accept", "content": {"value": 1}}},
        },
    )


# Resources, prompts, completion...


@case()
def resources(c):
    c.ask("resources/list")
    c.ask("resources/templates/list")
    for uri in ("config://app", "memo://a", "memo://b", "users://7/long"):
        c.ask("resources/read", {"uri": uri})
    for uri in (
        "users://ada/long",
        "users://7/odd",
        "memo://z",
        "broken://a",
        "../x",
        7,
    ):
        c.ask("resources/read", {"uri": uri})
    c.ask("resources/read")


@case()
def prompts(c):
    c.ask("prompts/list")
    c.ask("prompts/get", {"name": "review", "arguments": {"code": "pass"}})
    c.ask(
        "prompts/get", {"name": "review", "arguments": {"code": "pass", "style": "odd"}}
    )
    c.ask("prompts/get", {"name": "review"})
    c.ask("prompts/get", {"name": "nothing"})


@case()
def completions(c):
    def complete(ref, name, value, **context):
        params = {"ref": ref, "argument": {"name": name, "value": value}}
        c.ask("completion/complete", params | context)

    prompt = {"type": "ref/prompt", "name": "review"}
    complete(prompt, "code", "p")
    complete(prompt, "style", "")
    complete(prompt, "nothing", "")
    complete({"type": "ref/prompt", "name": "nothing"}, "code", "")
    complete(
        {"type": "ref/resource", "uri": "users://{id}/{kind}"},
        "kind",
        "s",
        context={"arguments": {"id": "7"}},
    )
    complete({"type": "ref/odd"}, "kind", "s")


# Changes...


@case("session")
def changes(c):
    c.listen()
    c.ask("resources/subscribe", {"uri": "memo://a"})
    for what in ("tools", "prompts", "resources", "resource"):
        c.call("change", what=what)
        c.next()
    c.ask("resources/unsubscribe", {"uri": "memo://a"})
    c.ask("resources/unsubscribe", {"uri": "memo://a"})
    c.ask("resources/subscribe", {"uri": "memo://z"})
    c.call("toggle", on=False)
    c.next()
    c.call("plain", value="x")
    c.call("toggle", on=True)
    c.next()
    c.unlisten()


@case("stateless")
def changes_listened_to(c):
    c.listen(toolsListChanged=True, resourceSubscriptions=["memo://a"])
    for what in ("prompts", "tools", "resource"):
        c.call("change", what=what)
        if what != "prompts":
            c.next()
    c.unlisten()
    c.ask("subscriptions/listen", {"notifications": 7})
    c.ask("subscriptions/listen")
    c.ask("resources/subscribe", {"uri": "memo://a"})


# Tasks and skills...


@case("stateless")
def tasks(c):
    task = c.call("job", pages=2)["taskId"]
    while c.ask("tasks/get", {"taskId": task})["status"] == "working":
        c.came.pop()
        if "status" in c.came[-1]:
            c.came.pop()
    c.ask("tasks/cancel", {"taskId": task})
    c.ask("tasks/get", {"taskId": "t-none"})
    c.ask("tasks/update", {"taskId": task, "inputResponses": {}})
    c.ask("tasks/list")
    c.capabilities = {}
    c.call("job", pages=2)
    c.call("only_task")


@case("session")
def session_tasks(c):
    params = {"name": "job", "arguments": {"pages": 2}, "task": {"ttl": 60000}}
    task = c.ask("tools/call", params)["task"]["taskId"]
    c.ask("tasks/result", {"taskId": task})
    c.ask("tasks/get", {"taskId": task})
    c.ask("tasks/list")
    c.ask("tasks/cancel", {"taskId": task})
    c.ask("tasks/get", {"taskId": "t-none"})
    c.ask("tools/call", {"name": "add", "arguments": {"a": 1}, "task": {}})
    c.call("only_task")
    c.call("job", pages=1)


@case()
def skills(c):
    c.ask("skills/list")
    c.ask("skills/get", {"uri": "skill://tea/SKILL.md"})
    c.ask("skills/get", {"uri": "skill://tea/NO.md"})
    c.ask("resources/read", {"uri": "skill://tea/a.md"})
    c.ask("resources/directory/read", {"uri": "skill://tea"})
    c.capabilities = {}
    c.ask("skills/list")


# HTTP...


@case("http session")
def sessions(c):
    c.send(b"", "DELETE")
    c.send(b"", "DELETE")
    c.ask("tools/call", {"name": "add", "arguments": {"a": 1}})
    c.send(b"", "GET", Accept="text/event-stream")
    c.session = None
    c.ask("tools/list")
    c.send(b"", "DELETE")
    c.session = "never-was"
    c.ask("ping")


PING: Final = json.dumps({"jsonrpc": "2.0", "id": "p", "method": "ping"}).encode()


@case("http")
def requests_that_are_refused(c):
    c.send(b"", "PUT")
    c.send(b"", "PATCH")
    c.send(b"", "OPTIONS")
    c.send(b"", "HEAD")
    if c.is_stateless:
        c.send(b"", "GET", Accept="text/event-stream")
    c.send(PING, Accept="text/html")
    c.send(PING, Content_Type="text/plain")
    c.send(PING, Host="evil.example.com")
    c.send(PING, Origin="https://evil.example.com")
    c.send(PING, MCP_Protocol_Version="1999-01-01")
    c.send(PING, path="/other")
    c.send(b"", "GET", "/health", Accept="*/*")
    c.send(b"", "GET", "/ready", Accept="*/*")
    c.send(b"x", Content_Length="5000000")


@case("http stateless")
def fields_that_contradict(c):
    def post(method, params=None, **fields):
        c.exchange(c.message(method, params, is_request=True), **fields)

    add = {"name": "add", "arguments": {"a": 1}}
    post("tools/call", add, Mcp_Method="tools/list")
    post("tools/call", add, Mcp_Method="")
    post("tools/call", add, Mcp_Name="other")
    post("tools/call", add, Mcp_Name="")
    post("tools/list", MCP_Protocol_Version="")
    post("tools/list", MCP_Protocol_Version="2025-11-25")
    post("tools/list", Mcp_Session_Id="x")
    rome = {"name": "weather", "arguments": {"city": "Rome"}}
    post("tools/call", rome, Mcp_Param_City="Paris")
    post("tools/call", rome, Mcp_Param_City="")
    post("tools/call", rome, Mcp_Param_City="=?base64?Um9tZQ==?=")

"""Faults in notifications and requests of a server, in input rounds and in tasks."""

import itertools

from mutants import Mutant, register
from mutants_features import (
    CONTENT,
    MODERN,
    Method,
    calls,
    fault,
    is_call,
    modern_calls,
    without,
)

SESSION = "2025-11-25"
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
TASKS = "io.modelcontextprotocol/tasks"


def line(name, *cases, revision=SESSION):
    """Register the decorated function as a change of lines over stdio.

    It gets the message, the method and params of its request, and a persistent dict;
    it returns a replacement, or ``None`` to send the message unchanged.
    """

    def add(function):
        def change(message, state):
            method, params = state.method_of(message), state.params_of(message)
            state.kept["params"] = state.params
            found = function(message, method, params, state.kept)
            return message if found is None else found

        register(Mutant(name, cases, change, revision=revision))
        return function

    return add


# --- changes --------------------------------------------------------------------------


def not_sent(of, *cases):
    @line(f"{of} are not told", *cases)
    def change(message, method, params, kept):
        return [] if message.get("method") == f"notifications/{of}" else None


not_sent("tools/list_changed", "TOOL-05.a")
not_sent("resources/list_changed", "RES-03.a")
not_sent("prompts/list_changed", "PROMPT-03.a")

UPDATED = {
    "jsonrpc": "2.0",
    "method": "notifications/resources/updated",
    "params": {"uri": "subject://text"},
}


@line("updates come without a subscription", "F06.d")
def unasked(message, method, params, kept):
    is_one = message.get("method") == "notifications/tools/list_changed"
    return [message, UPDATED] if is_one else None


@fault("changes are told and not declared", "LIFE-11.d", "RES-03.a", "PROMPT-03.a")
def undeclared(message, method, params, kept):
    if method == "initialize" and "result" in message:
        message["result"]["capabilities"]["tools"]["listChanged"] = False


# --- subscriptions --------------------------------------------------------------------

ACKNOWLEDGED = "notifications/subscriptions/acknowledged"


def acknowledgement(name, *cases):
    """Register a function that changes acknowledgements.

    It gets the message, the requested filter, and the id of the subscription.
    """

    def add(function):
        @line(name, *cases, revision=MODERN)
        def change(message, method, params, kept):
            if message.get("method") != ACKNOWLEDGED:
                return None
            id = message["params"]["_meta"][SUBSCRIPTION]
            requests = {key.strip('"'): each for key, each in kept["params"].items()}
            requested = requests[str(id)]["notifications"]
            return function(message, requested, id)

        return function

    return add


@acknowledgement("a change comes before the acknowledgement", "SUB-03.a", "D18.c")
def too_early(message, requested, id):
    if len(requested) != 3:
        return None
    early = {
        "jsonrpc": "2.0",
        "method": "notifications/tools/list_changed",
        "params": {"_meta": {SUBSCRIPTION: id}},
    }
    return [early, message]


@acknowledgement("ids of subscriptions become texts", "SUB-06.a", "D18.d")
def as_text(message, requested, id):
    message["params"]["_meta"][SUBSCRIPTION] = str(id)


def ended(name, *cases, meta):
    """End each subscription at once, with a result of the given metadata."""

    @acknowledgement(name, *cases)
    def change(message, requested, id):
        result = {"resultType": "complete", "_meta": {**SERVER, **meta(id)}}
        return [message, {"jsonrpc": "2.0", "id": id, "result": result}]


SERVER = {"io.modelcontextprotocol/serverInfo": {"name": "subject", "version": "1"}}
LISTEN_RESULT = "SCHEMA.SubscriptionsListenResult"
ended("the end has no id", "SUB-12.a", LISTEN_RESULT, meta=lambda own: {})
ended("the end has another id", "SUB-12.a", meta=lambda own: {SUBSCRIPTION: "other"})
ended(
    "the end has the id as text", "SUB-12.a", meta=lambda own: {SUBSCRIPTION: f"{own}"}
)


@line("changes have no id", "SUB-06.b", revision=MODERN)
def no_id(message, method, params, kept):
    if str(message.get("method")).endswith("/list_changed"):
        message["params"].pop("_meta")


@acknowledgement("more is granted than was asked for", "D18.a", "D18.d")
def more(message, requested, id):
    message["params"]["notifications"]["promptsListChanged"] = True


@acknowledgement("what is unknown is granted", "D18.b")
def unknown(message, requested, id):
    message["params"]["notifications"].update(requested)


@acknowledgement("what is declared is not granted", "D18.c")
def less(message, requested, id):
    message["params"]["notifications"].pop("toolsListChanged", None)


@acknowledgement("two subscriptions are one", "D18.d")
def mixed(message, requested, id):
    if requested == {"promptsListChanged": True}:
        message["params"]["notifications"]["toolsListChanged"] = True


def copied(name, *cases, of, to):
    """Send the notifications of one subscription to all that match `to`, too."""

    @line(name, *cases, revision=MODERN)
    def change(message, method, params, kept):
        if not str(message.get("method")).endswith(of):
            return None
        meta = [
            {SUBSCRIPTION: int(key)}
            for key, each in kept["params"].items()
            if to(each.get("notifications"))
        ]
        copies = [
            {**message, "params": {**message["params"], "_meta": each}} for each in meta
        ]
        return [message, *copies]


copied(
    "changes are told to who asked for nothing",
    "SUB-02.a",
    "SUB-06.b",
    of="/list_changed",
    to=lambda requested: requested == {},
)
copied(
    "updates are told for other URIs",
    "D18.e",
    "SUB-02.a",
    "SUB-06.b",
    of="/updated",
    to=lambda requested: (
        (requested or {}).get("resourceSubscriptions", ["subject"])[0][:7] == "mcpwire"
    ),
)
copied(
    "changes are told after the end",
    "TR-STDIO-11.l",
    "SUB-06.b",
    of="tools/list_changed",
    to=lambda requested: len(requested or {}) == 3,
)
Method("subscriptions/listen", MODERN).error(
    -32603, "no filter is an internal error", "D18.f", when=without("notifications")
)

# --- questions ------------------------------------------------------------------------

IDS = itertools.count(1)
ROOTS = {"method": "roots/list", "params": {}}
FORM = {
    "method": "elicitation/create",
    "params": {
        "message": "Your name?",
        "requestedSchema": {"type": "object", "properties": {}},
    },
}
SAMPLE = {
    "method": "sampling/createMessage",
    "params": {
        "messages": [{"role": "user", "content": {"type": "text", "text": "Hello"}}],
        "maxTokens": 10,
        "tools": [{"name": "add", "inputSchema": {"type": "object"}}],
    },
}


def asks_before(name, *cases, server_request, revision=SESSION):
    """Send a request to the client before the result of the tool `ask`."""

    @line(name, *cases, revision=revision)
    def change(message, method, params, kept):
        sent = {"jsonrpc": "2.0", "id": f"q{next(IDS)}", **server_request}
        return [sent, message] if is_ask(method, params) else None


asks_before("a client without capabilities is asked", "LIFE-11.b", server_request=FORM)
asks_before(
    "a client without capabilities is asked for roots",
    "LIFE-11.c",
    server_request=ROOTS,
    revision="2025-03-26",
)
asks_before(
    "a client without forms is asked by one",
    "ELIC-02.b",
    "LIFE-11.b",
    server_request=FORM,
)
asks_before(
    "tools come with a question", "SAMP-02.a", "LIFE-11.b", server_request=SAMPLE
)


@line("a client without URLs is asked by one", "ELIC-02.a")
def by_url(message, method, params, kept):
    if message.get("method") == "elicitation/create":
        more = {"url": "https://example.com/a", "elicitationId": "a"}
        message["params"] = {"mode": "url", "message": "Look.", **more}


def text_of(message):
    content = (message.get("result") or {}).get("content") or [{}]
    return str(content[0].get("text"))


def is_ask(method, params):
    return method == "tools/call" and params.get("name") == "ask"


@line("a call whose question is answered fails", "C07.a")
def fails(message, method, params, kept):
    if is_ask(method, params) and text_of(message).startswith("accept"):
        message.pop("result")
        message["error"] = {"code": -32603, "message": "a seeded fault"}


def silent_after(name, *cases, word):
    @line(name, *cases)
    def change(message, method, params, kept):
        return [] if is_ask(method, params) and word in text_of(message) else None


silent_after("a call waits for ever after decline", "ELIC-09.a", word="decline")
silent_after("a call waits for ever after cancel", "ELIC-09.b", word="cancel")


@line("a call waits for ever after an error", "C07.b")
def no_answer(message, method, params, kept):
    if message.get("method") == "elicitation/create":
        kept["asked"] = True
    word = text_of(message).split(":")[0]
    is_late = is_ask(method, params) and kept.get("asked")
    return [] if is_late and word not in {"accept", "decline", "cancel"} else None


# --- input rounds ---------------------------------------------------------------------


def capabilities(params):
    return params.get("_meta", {}).get(CAPABILITIES, {})


def asking(name, *cases):
    """Register a function that changes `input_required` results."""

    def add(function):
        @modern_calls.result(name, *cases)
        def change(found):
            if found.get("resultType") == "input_required":
                function(found)

        return function

    return add


@asking("a result asks for nothing", "MRTR-05.a", "F16.a")
def nothing(found):
    found.pop("inputRequests", None)
    found.pop("requestState", None)


@asking("a question has no message", "MRTR-03.a", "SCHEMA.CallToolResult")
def no_message(found):
    for each in found["inputRequests"].values():
        each["params"].pop("message", None)


INPUT_REQUIRED = {
    "resultType": "input_required",
    "inputRequests": {"a": {**FORM, "params": {**FORM["params"], "mode": "form"}}},
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "a", "version": "1"}},
}


modern_calls.success(
    INPUT_REQUIRED,
    "a client that declares nothing is asked for input",
    "MRTR-06.a",
    "META-09.a",
    when=lambda params: is_call("ask")(params) and capabilities(params) == {},
)
modern_calls.success(
    INPUT_REQUIRED,
    "a client is asked for what it declared before",
    "MRTR-06.b",
    when=lambda params: (
        is_call("ask")(params) and capabilities(params) == {"sampling": {}}
    ),
)
modern_calls.error(
    -32603,
    "a capability that is missing is an internal error",
    "META-10.a",
    when=lambda params: (
        params.get("name") in {"ask", "sample"} and capabilities(params) == {}
    ),
)


def ok(held):
    if b"-32021" in held["body"] and b"tools/call" in held["request"]["body"]:
        held["status"] = 200


register(
    Mutant(
        "a capability that is missing has the status 200",
        ("META-10.b",),
        revision=MODERN,
        transport="http",
        response=ok,
    )
)


def answers(params):
    found = params.get("inputResponses")
    return found if isinstance(found, dict) else {}


modern_calls.error(
    -32603,
    "a call that has all answers fails",
    "F16.a",
    "MRTR-18.a",
    when=lambda params: bool(answers(params)),
)
modern_calls.error(
    -32602,
    "a missing answer is an error",
    "MRTR-19.a",
    when=lambda params: params.get("inputResponses") == {},
)
modern_calls.error(
    -32602,
    "one more answer is an error",
    "MRTR-18.a",
    when=lambda params: "mcpwire-none" in answers(params),
)
modern_calls.success(
    CONTENT,
    "a list answers questions",
    "MRTR-17.a",
    when=lambda params: isinstance(params.get("inputResponses"), list),
)
modern_calls.success(
    CONTENT,
    "any state is accepted",
    "MRTR-08.a",
    when=lambda params: params.get("requestState") == "mcpwire",
)
modern_calls.success(
    CONTENT,
    "a state is good for another tool",
    "MRTR-09.a",
    when=lambda params: (
        "requestState" in params and params.get("name") not in {"ask", "sample"}
    ),
)


@Method("prompts/list", MODERN).result("a list asks for input", "MRTR-02.a")
def list_asks(found):
    found["resultType"] = "input_required"


# --- tasks of 2025-11-25 --------------------------------------------------------------


def begins(method, params):
    return method == "tools/call" and "task" in params


@fault("a call that is to be a task is answered at once", "T11-05.a")
def at_once(message, method, params, kept):
    if begins(method, params) and "task" in message.get("result", {}):
        kept["count"] = kept.get("count", 0) + 1
        if kept["count"] == 1:
            message["result"] = {"content": []}


@fault("two tasks have one id", "T11-06.a", "T11-13.b", "T11-13.a")
def one_id(message, method, params, kept):
    if begins(method, params) and "task" in message.get("result", {}):
        task = message["result"]["task"]
        task["taskId"] = kept.setdefault("id", task["taskId"])


@fault("a task that is over works again", "T11-06.b")
def works_again(message, method, params, kept):
    found = message.get("result", {})
    if method == "tasks/get" and found.get("status") == "completed":
        seen = kept.setdefault(params["taskId"], [])
        seen.append(1)
        if len(seen) > 1:
            found["status"] = "working"


@Method("tasks/get").result("a task was created yesterday", "T11-07.a")
def created(found):
    found["createdAt"] = "yesterday"


@Method("tasks/result").result("a task has no result", "T11-09.a")
def no_result(found):
    for key in [key for key in found if key != "_meta"]:
        del found[key]


@fault("a result comes before the end", "T11-09.b")
def before_the_end(message, method, params, kept):
    # The result of a slow task may arrive on an event stream.
    result_requests = kept["state"].requests("tasks/result")
    if method == "tasks/get" and params in result_requests:
        message["result"]["status"] = "working"


@Method("tasks/result").result("a result does not name its task", "T11-10.a")
def nameless(found):
    found.pop("_meta")


def listing(name, *cases, items, refuses=True):
    """Declare tasks.list, and answer the request."""

    @fault(name, *cases)
    def change(message, method, params, kept):
        if method == "initialize" and "result" in message:
            message["result"]["capabilities"]["tasks"]["list"] = {}
        if begins(method, params) and "task" in message.get("result", {}):
            kept.setdefault("tasks", []).append(message["result"]["task"])
        if method == "tasks/list":
            message.pop("error", None)
            message.pop("result", None)
            if refuses and params.get("cursor"):
                message["error"] = {"code": -32602, "message": "unknown cursor"}
            else:
                found = kept.get("tasks", []) if items else []
                message["result"] = {"tasks": found}


listing("a task is not on the list", "T11-12.a", items=False)
listing("tasks/list goes on with any cursor", "T11-14.d", items=True, refuses=False)


@fault("a task that is over is cancelled", "T11-13.a")
def cancels(message, method, params, kept):
    if method == "tasks/get" and "result" in message:
        kept[params["taskId"]] = message["result"]
    if method == "tasks/cancel" and "error" in message and params["taskId"] in kept:
        del message["error"]
        message["result"] = {**kept[params["taskId"]], "status": "cancelled"}


@Method("tasks/cancel").result("a task that was cancelled works", "T11-13.b")
def still_works(found):
    found["status"] = "working"


for _method, _letter in (
    ("tasks/get", "a"),
    ("tasks/result", "b"),
    ("tasks/cancel", "c"),
):
    Method(_method).error(
        -32603,
        f"{_method} of no task is an internal error",
        f"T11-14.{_letter}",
        when=lambda params: params.get("taskId") == "mcpwire-no-such-task",
    )

calls.success(
    {"content": []},
    "a tool that is a task only runs at once",
    "T11-03.a",
    when=lambda params: is_call("only_later")(params) and "task" not in params,
)
calls.success(
    {"content": []},
    "a tool that is no task takes no notice",
    "T11-02.a",
    when=lambda params: params.get("name") == "echo" and "task" in params,
)


@fault("tasks are refused by a server without them", "T11-04.a")
def no_tasks(message, method, params, kept):
    if method == "initialize" and "result" in message:
        message["result"]["capabilities"].pop("tasks")


# --- the extension for tasks ----------------------------------------------------------


def declares_tasks(params):
    return TASKS in capabilities(params).get("extensions", {})


@line("a client without the extension gets a task", "TX-02.a", revision=MODERN)
def undeclared_task(message, method, params, kept):
    found = message.get("result", {})
    if method == "tools/call" and params.get("name") == "later":
        found["resultType"] = "task"


@modern_calls.result("a task does not say how long it is kept", "TX-08.a")
def no_ttl(found):
    if found.get("resultType") == "task":
        found.pop("ttlMs")


@fault("a task is not there at once", "TX-06.a", revision=MODERN)
def not_there(message, method, params, kept):
    if method == "tasks/get" and declares_tasks(params) and "result" in message:
        seen = kept.setdefault("seen", set())
        if params["taskId"] not in seen:
            seen.add(params["taskId"])
            message.pop("result")
            message["error"] = {"code": -32602, "message": "no such task"}


@Method("tasks/get", MODERN).result("tasks/get is another task", "TX-05.a")
def another(found):
    found["resultType"] = "task"


@Method("tasks/get", MODERN).result("a task that completed has no result", "TX-09.a")
def completed(found):
    found.pop("result", None)


@Method("tasks/cancel", MODERN).result("tasks/cancel gives the task", "TX-15.a")
def gives_task(found):
    found["status"] = "cancelled"


Method("tasks/update", MODERN).error(
    -32602,
    "an answer for no question is an error",
    "TX-15.b",
    when=lambda params: "mcpwire-none" in answers(params),
)
for _method, _letter in (
    ("tasks/get", "a"),
    ("tasks/update", "b"),
    ("tasks/cancel", "c"),
):
    Method(_method, MODERN).error(
        -32603,
        f"{_method} of no task of the extension is an internal error",
        f"TX-17.{_letter}",
        when=lambda params: (
            params.get("taskId") == "mcpwire-no-such-task" and declares_tasks(params)
        ),
    )
Method("tasks/get", MODERN).error(
    -32602,
    "tasks/get without the extension is an unknown task",
    "TX-18.a",
    when=lambda params: not declares_tasks(params),
)
Method("subscriptions/listen", MODERN).error(
    -32602,
    "tasks are listened to without the extension",
    "TX-18.b",
    when=lambda params: "taskIds" in params.get("notifications", {}),
)


@line("what is told of a task has no result", "TX-20.a", revision=MODERN)
def without_result(message, method, params, kept):
    if message.get("method") == "notifications/tasks":
        message["params"].pop("result", None)


@fault("the old tasks are declared", "TX-21.a", revision=MODERN)
def old_tasks(message, method, params, kept):
    if method == "server/discover" and "result" in message:
        message["result"]["capabilities"]["tasks"] = {"list": {}}


modern_calls.error(
    -32602,
    "the old task of a call is an error",
    "TX-21.b",
    when=lambda params: "task" in params,
)


@fault(
    "ids of tasks are numbers",
    *("F17.a", "TX-06.a", "TX-05.a", "TX-15.a", "TX-15.b"),
    revision=MODERN,
)
def numbers(message, method, params, kept):
    found = message.get("result", {})
    if method == "tools/call" and found.get("resultType") == "task":
        kept["count"] = kept.get("count", 0) + 1
        found["taskId"] = str(kept["count"])

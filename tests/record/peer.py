"""The server of either era that the record's clients use: standard library only.

Run as a program it serves stdio, and writes what it reads to a file; `web` serves HTTP.
A tool is a generator that yields each message before
the result; yielding a request returns its response.
"""

import json
import os
import sys
import threading

META = "io.modelcontextprotocol/"
TASKS, SKILLS = META + "tasks", META + "skills"
STATELESS, SESSION, OLDEST = "2026-07-28", "2025-11-25", "2024-11-05"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
TIMEOUT_S = 30.0
EXIT_CODE = 7


class Fail(Exception):
    """An error that answers a request."""


class Silence(Exception):
    """The server never answers."""


class Leave(Exception):
    """The server exits without an answer."""


class Raw(Exception):
    """The server sends these bytes instead of an answer."""


class Reply(Exception):
    """The server sends this status, header fields and body over HTTP."""


def text(value, **members):
    return {"content": [{"type": "text", "text": value}], **members}


def note(method, **params):
    return {"jsonrpc": "2.0", "method": "notifications/" + method, "params": params}


FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "default": 7},
    },
    "required": ["name"],
}
QUESTIONS = {
    "sample": (
        "sampling/createMessage",
        {
            "messages": [{"role": "user", "content": {"type": "text", "text": "Hi?"}}],
            "maxTokens": 5,
        },
    ),
    "form": ("elicitation/create", {"message": "Who?", "requestedSchema": FORM}),
    "url": (
        "elicitation/create",
        {
            "mode": "url",
            "message": "Go",
            "url": "https://example.com/a",
            "elicitationId": "e1",
        },
    ),
    "roots": ("roots/list", {}),
    "ping": ("ping", {}),
    "unknown": ("vendor/question", {}),
}


def tool(name, properties=None, **members):
    schema = {"type": "object", "properties": properties or {}}
    return {"name": name, "inputSchema": schema, **members}


SUM = {
    "type": "object",
    "properties": {"sum": {"type": "integer"}},
    "required": ["sum"],
}
TOOLS = [
    tool("echo", {"text": {"type": "string"}}, description="Says it again."),
    tool("sum", outputSchema=SUM, annotations={"readOnlyHint": True}, title="Sum"),
    tool("slow"),
    tool("mirrored", {"region": {"type": "string", "x-mcp-header": "Region"}}),
]
SKILL_TEXT = "---\nname: tea\ndescription: Makes tea\n---\nBoil water.\n"
FILES = {"skill://tea/SKILL.md": SKILL_TEXT, "skill://tea/a.md": "Wait.\n"}
DIGESTS = (
    "2ff4e9110b7ccf7c2840d1ac634f277ae99298de40d4d1735d220c90dcbc48b3",
    "2fbaa70732fca16836003799c065a64b3d6b5a2e8ae0752fb53f1c9e026ac168",
)
SKILL = {
    "uri": "skill://tea/SKILL.md",
    "frontmatter": {"name": "tea", "description": "Makes tea"},
    "resources": [
        {"uri": uri, "digest": f"sha256:{digest}", "size": len(FILES[uri])}
        for uri, digest in zip(FILES, DIGESTS, strict=True)
    ],
}
LISTS = {
    "tools/list": ("tools", TOOLS, 3),
    "resources/list": (
        "resources",
        [
            {"uri": f"memo://{name}", "name": name, "mimeType": "text/plain"}
            for name in "abc"
        ],
        2,
    ),
    "resources/templates/list": (
        "resourceTemplates",
        [{"uriTemplate": "memo://{id}", "name": "memo"}],
        2,
    ),
    "prompts/list": (
        "prompts",
        [{"name": "greet", "arguments": [{"name": "who", "required": True}]}],
        2,
    ),
    "skills/list": ("skills", [SKILL], 2),
}


class Peer:
    """The answers of a server of one era; the received messages are in `seen`."""

    def __init__(self, era, **options):
        self.era = era
        self.is_stateless = era == STATELESS
        self.options = options
        self.seen = []
        self.calls = 0
        self.begun = 0
        self.task_looks = 0
        self.gone = set()
        self.kept = []
        self.listeners = {}
        self.changed = threading.Condition()

    # Answers...

    def answer(self, request):
        """Return the answer to a request, step by step."""
        try:
            return (yield from self.answer_rightly(request))
        except (TypeError, AttributeError, KeyError) as error:
            raise Fail(-32602, f"{type(error).__name__} in the peer") from None

    def answer_rightly(self, request):
        method, params = request["method"], request.get("params") or {}
        name = method.replace("/", "_").replace("setL", "set_l")
        if method in LISTS:
            result = self.page(params, *LISTS[method])
        elif found := getattr(self, "do_" + name, None):
            result = found(params, request)
            if hasattr(result, "send"):
                result = yield from result
        else:
            raise Fail(-32601, f"method not found: {method}")
        if self.is_stateless and type(result) is dict:
            result = {"resultType": "complete", **result}
        return result

    def cacheable(self, **members):
        hints = {"ttlMs": self.options.get("ttl", 0), "cacheScope": "private"}
        return {**(hints if self.is_stateless else {}), **members}

    def capabilities(self):
        if "capabilities" in self.options:
            return self.options["capabilities"]
        changes = {"listChanged": True}
        common = {
            "tools": changes,
            "prompts": changes,
            "resources": {**changes, "subscribe": True},
            "completions": {},
            "logging": {},
        }
        if self.is_stateless:
            skills = {"directoryRead": True}
            return {**common, "extensions": {TASKS: {}, SKILLS: skills}}
        calls = {"tools": {"call": {}}}
        return {**common, "tasks": {"list": {}, "cancel": {}, "requests": calls}}

    def do_initialize(self, params, _):
        if self.is_stateless:
            raise Fail(
                -32022,
                "no sessions",
                {"supported": [STATELESS], "requested": params["protocolVersion"]},
            )
        self.begun += 1
        return {
            "protocolVersion": self.options.get("version", self.era),
            "capabilities": self.capabilities(),
            "serverInfo": {"name": "peer", "version": "1"},
            "instructions": "Be kind.",
        }

    def do_server_discover(self, *_):
        if not self.is_stateless:
            raise Fail(-32601, "method not found: server/discover")
        return self.cacheable(
            supportedVersions=[self.options.get("version", STATELESS)],
            capabilities=self.capabilities(),
            instructions="Be kind.",
            _meta={META + "serverInfo": {"name": "peer", "version": "1"}},
        )

    def do_ping(self, *_):
        return {}

    do_logging_set_level = do_resources_subscribe = do_resources_unsubscribe = do_ping
    do_tasks_update = do_ping

    def page(self, params, key, items, size):
        cursor = params.get("cursor", "0")
        if not cursor.isdigit():
            raise Fail(-32602, "unknown cursor", {"cursor": cursor})
        if self.options.get("loops"):
            return self.cacheable(**{key: items[:1]}, nextCursor="1")
        end = int(cursor) + size
        more = {"nextCursor": str(end)} if end < len(items) else {}
        return self.cacheable(**{key: items[int(cursor) : end]}, **more)

    def do_resources_read(self, params, _):
        uri = params["uri"]
        if uri in FILES:
            return self.cacheable(contents=[{"uri": uri, "text": FILES[uri]}])
        known = {
            "memo://a": [{"uri": uri, "text": "one", "mimeType": "text/plain"}],
            "memo://b": [{"uri": uri, "blob": "AAEC"}],
            "memo://c": [
                {"uri": uri, "text": "x"},
                {"uri": uri + "/2", "blob": "AA=="},
            ],
        }
        if uri not in known:
            code = -32602 if self.is_stateless else -32002
            raise Fail(code, "no such resource", {"uri": uri})
        return self.cacheable(contents=known[uri])

    def do_resources_directory_read(self, params, _):
        found = {"uri": params["uri"] + "/a.md", "name": "a.md"}
        return self.cacheable(resources=[found])

    def do_skills_get(self, params, _):
        if params["uri"] != SKILL["uri"]:
            raise Fail(-32602, "no such skill")
        return self.cacheable(skill=SKILL)

    def do_prompts_get(self, params, _):
        who = params.get("arguments", {}).get("who")
        if who is None:
            raise Fail(-32602, "who is missing")
        content = {"type": "text", "text": f"Hello {who}"}
        return {
            "description": "A greeting",
            "messages": [{"role": "user", "content": content}],
        }

    def do_completion_complete(self, params, _):
        return {
            "completion": {"values": [params["argument"]["value"] + "da"], "total": 1}
        }

    def do_vendor_echo(self, params, _):
        return {"echo": {k: v for k, v in params.items() if k != "_meta"}}

    def do_subscriptions_listen(self, params, request):
        requested = params["notifications"]
        mark = {META + "subscriptionId": request["id"]}
        yield note(ACKNOWLEDGED[14:], notifications=requested, _meta=mark)
        with self.changed:
            self.listeners[request["id"]] = requested
            self.flush()
        raise Silence

    # Tasks...

    def task(self, status, **members):
        return {
            "taskId": "t-1",
            "status": status,
            "createdAt": "2026-08-01T10:00:00Z",
            "lastUpdatedAt": "2026-08-01T10:00:00Z",
            **(
                {"ttlMs": None, "pollIntervalMs": 1}
                if self.is_stateless
                else {"ttl": None, "pollInterval": 1}
            ),
            **members,
        }

    def do_tasks_get(self, params, _):
        if params["taskId"] != "t-1":
            raise Fail(-32602, "no such task")
        self.task_looks += 1
        if self.task_looks == 1:
            return self.task("working", statusMessage="on it")
        if self.task_looks == 2 and self.is_stateless and self.options.get("asks"):
            method, fields = QUESTIONS["form"]
            input_requests = {"q1": {"method": method, "params": fields}}
            return self.task("input_required", inputRequests=input_requests)
        if not self.is_stateless:
            return self.task("completed")
        return self.task("completed", result={"resultType": "complete", **text("done")})

    def do_tasks_result(self, params, _):
        return text("done", _meta={META + "related-task": {"taskId": "t-1"}})

    def do_tasks_list(self, *_):
        return {"tasks": [self.task("working")]}

    def do_tasks_cancel(self, *_):
        return {} if self.is_stateless else self.task("cancelled")

    # Tools...

    def do_tools_call(self, params, request):
        self.calls += 1
        if "task" in params:
            return {"task": self.task("working")}
        found = getattr(self, f"tool_{params['name']}", None)
        if found is None:
            raise Fail(-32602, f"unknown tool: {params['name']}")
        return found(params.get("arguments") or {}, params, request)

    def tool_echo(self, arguments, *_):
        return text(json.dumps(arguments, sort_keys=True))

    tool_mirrored = tool_echo

    def tool_sum(self, arguments, *_):
        return text("5", structuredContent=arguments.get("give", {"sum": 5}))

    def tool_blocks(self, *_):
        content = [
            {
                "type": "text",
                "text": "a",
                "annotations": {"audience": ["user"], "priority": 1},
            },
            {"type": "image", "data": "AAEC", "mimeType": "image/png"},
            {"type": "audio", "data": "AAEC", "mimeType": "audio/wav"},
            {"type": "resource_link", "uri": "memo://a", "name": "a"},
            {"type": "resource", "resource": {"uri": "memo://b", "blob": "AAEC"}},
            {"type": "hologram", "depth": 3},
        ]
        return {"content": content, "_meta": {"vendor/x": 1}, "later": True}

    def tool_fail(self, *_):
        return text("it broke", isError=True)

    def tool_error(self, arguments, *_):
        raise Fail(*arguments["error"])

    def tool_give(self, arguments, *_):
        return arguments["result"]

    def tool_forget(self, *_):
        self.begun += 1
        return text("who are you?")

    def tool_slow(self, _, params, __):
        token = params.get("_meta", {}).get("progressToken")
        if token is not None:
            yield note("progress", progressToken=token, progress=1)
        raise Silence

    def tool_gone(self, arguments, *_):
        """Answer once another call was cancelled."""
        with self.changed:
            is_cancelled = self.changed.wait_for(
                lambda: self.gone, arguments.get("wait", TIMEOUT_S)
            )
        return text(f"given up: {bool(is_cancelled)}")

    def tool_progress(self, arguments, params, _):
        token = params.get("_meta", {}).get("progressToken")
        for step in range(1, 4):
            if token is not None:
                yield note(
                    "progress",
                    progressToken=token,
                    progress=step,
                    total=3,
                    message=f"step {step}",
                )
        return text("walked" if token is not None else "no token")

    def tool_log(self, *_):
        yield note("message", level="info", logger="peer", data={"a": 1})
        return text("logged")

    def tool_announce(self, arguments, *_):
        for method, params in arguments["say"]:
            yield from self.say(note(method, **params))
        return text("announced")

    def tool_ask(self, arguments, params, _):
        names = arguments["ask"]
        if self.is_stateless:
            answers = params.get("inputResponses")
            if answers is None:
                input_requests = {
                    n: {"method": QUESTIONS[n][0], "params": QUESTIONS[n][1]}
                    for n in names
                }
                return {
                    "resultType": "input_required",
                    "inputRequests": input_requests,
                    "requestState": "s-1",
                }
            return text(
                json.dumps([answers, params.get("requestState")], sort_keys=True)
            )
        answers = []
        for name in names:
            method, fields = QUESTIONS[name]
            self.asked = getattr(self, "asked", 0) + 1
            answer = yield {
                "jsonrpc": "2.0",
                "id": f"q{self.asked}",
                "method": method,
                "params": fields,
            }
            answers.append(
                {k: v for k, v in answer.items() if k in {"result", "error"}}
            )
        return text(json.dumps(answers, sort_keys=True))

    def tool_task(self, *_):
        return {"resultType": "task", **self.task("working")}

    def tool_die(self, arguments, *_):
        if self.calls <= arguments.get("times", 1):
            raise Leave
        return text("back")

    def tool_raw(self, arguments, *_):
        raise Raw(arguments["raw"])

    def tool_status(self, arguments, *_):
        if self.calls <= arguments.get("times", 1):
            raise Reply(
                arguments["status"],
                arguments.get("fields", {}),
                arguments.get("body", ""),
            )
        return text("in the end")

    # Notifications...

    def say(self, message):
        """Send a notification on its stream, once that is open."""
        with self.changed:
            self.kept.append(message)
            self.flush()
        return ()

    def flush(self):
        for message in list(self.kept):
            targets = [
                id
                for id in self.listeners
                if self.is_wanted(message, self.listeners[id])
            ]
            for id in targets:
                params = dict(message["params"])
                if self.is_stateless:
                    params["_meta"] = {META + "subscriptionId": id}
                self.push(id, {**message, "params": params})
            if targets:
                self.kept.remove(message)

    def is_wanted(self, message, requested):
        method, params = message["method"][14:], message["params"]
        if not self.is_stateless:
            return True
        if method == "resources/updated":
            return params["uri"] in requested.get("resourceSubscriptions", ())
        return requested.get(method.partition("/")[0] + "ListChanged", False)

    def push(self, id, message):
        raise NotImplementedError

    def note_gone(self, id):
        with self.changed:
            self.gone.add(id)
            self.listeners.pop(id, None)
            self.changed.notify_all()

    def note_message(self, message):
        if message.get("method") == "notifications/cancelled":
            self.note_gone(message["params"].get("requestId"))


def run(steps, value, write):
    """Continue until the end or a request; return the request's id."""
    while True:
        message = steps.send(value)
        write(message)
        if "id" in message:
            return message["id"]
        value = None


class StdioPeer(Peer):
    """The same over stdin and stdout."""

    def __init__(self, era, log, **options):
        super().__init__(era, **options)
        self.log = log
        self.waiting = {}

    def tool_gone(self, *_):
        return text(f"given up: {bool(self.gone)}")  # earlier messages have been read

    def write(self, message):
        data = (
            message if type(message) is bytes else json.dumps(message).encode() + b"\n"
        )
        while data:
            data = data[os.write(1, data) :]

    def push(self, id, message):
        self.write(message)

    def serve(self):
        if not self.is_stateless:
            self.listeners[None] = {}
        for line in sys.stdin.buffer:
            message = json.loads(line)
            self.log.write(json.dumps(message) + "\n")
            if "method" not in message:
                self.go_on(*self.waiting.pop(message["id"]), message)
            elif "id" in message:
                self.go_on(message["id"], self.answer(message), None)
            else:
                self.note_message(message)

    def go_on(self, id, steps, value):
        outcome = {}
        try:
            self.waiting[run(steps, value, self.write)] = id, steps
            return
        except StopIteration as end:
            outcome["result"] = end.value
        except Fail as error:
            outcome["error"] = failure(error)
        except (Silence, Reply):
            return
        except Raw as raw:
            self.write(raw.args[0].encode())
            return
        self.write({"jsonrpc": "2.0", "id": id, **outcome})


def failure(error):
    code, message, *data = error.args
    return {"code": code, "message": message, **({"data": data[0]} if data else {})}


def main(era, options):
    with open(os.environ["SEEN"], "a", buffering=1, encoding="utf-8") as log:  # noqa: PTH123 - no imports
        try:
            StdioPeer(era, log, **json.loads(options)).serve()
        except Leave:
            os.write(2, b"out of paper\n")
            return EXIT_CODE
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

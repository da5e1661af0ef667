"""A server of either era that the record puts before clients: standard library only.

Run as a program it serves stdio, and writes what it read to a file when it ends; `serve`
serves HTTP in threads. What a tool does is a generator that yields each message before
the result; yielding a request gives its answer.
"""

import contextlib
import hashlib
import json
import os
import queue
import select
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

META = "io.modelcontextprotocol/"
TASKS, SKILLS = META + "tasks", META + "skills"
STATELESS, SESSION, OLDEST = "2026-07-28", "2025-11-25", "2024-11-05"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
PATIENCE_S = 30.0
EXIT_CODE = 7


class Fail(Exception):
    """An error that answers a request."""


class Silence(Exception):
    """No answer comes until the client gives up."""


class Leave(Exception):
    """The server goes without an answer."""


class Raw(Exception):
    """These bytes come instead of an answer."""


class Reply(Exception):
    """A status, header fields and a body come, where there is HTTP."""


def text(value, **members):
    return {"content": [{"type": "text", "text": value}], **members}


def note(method, **params):
    return {"jsonrpc": "2.0", "method": "notifications/" + method, "params": params}


FORM = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "age": {"type": "integer", "default": 7}},
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
SKILL = {
    "uri": "skill://tea/SKILL.md",
    "frontmatter": {"name": "tea", "description": "Makes tea"},
    "resources": [
        {
            "uri": uri,
            "digest": "sha256:" + hashlib.sha256(said.encode()).hexdigest(),
            "size": len(said),
        }
        for uri, said in FILES.items()
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
    """What a server of one era answers; what came is in `seen`."""

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

    # What is answered...

    def answer(self, request):
        """Return what answers a request, step by step."""
        method, params = request["method"], request.get("params") or {}
        name = method.replace("/", "_")
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
            raise Fail(-32022, "no sessions", {"supported": [STATELESS], "requested": params["protocolVersion"]})
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

    do_logging_setLevel = do_resources_subscribe = do_resources_unsubscribe = do_ping
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
            "memo://c": [{"uri": uri, "text": "x"}, {"uri": uri + "/2", "blob": "AA=="}],
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
        said = {"type": "text", "text": f"Hello {who}"}
        return {"description": "A greeting", "messages": [{"role": "user", "content": said}]}

    def do_completion_complete(self, params, _):
        return {"completion": {"values": [params["argument"]["value"] + "da"], "total": 1}}

    def do_vendor_echo(self, params, _):
        return {"echo": {k: v for k, v in params.items() if k != "_meta"}}

    def do_subscriptions_listen(self, params, request):
        wanted = params["notifications"]
        mark = {META + "subscriptionId": request["id"]}
        yield note(ACKNOWLEDGED[14:], notifications=wanted, _meta=mark)
        with self.changed:
            self.listeners[request["id"]] = wanted
            self.flush()
        raise Silence

    # Tasks...

    def task(self, status, **members):
        return {
            "taskId": "t-1",
            "status": status,
            "createdAt": "2026-08-01T10:00:00Z",
            "lastUpdatedAt": "2026-08-01T10:00:00Z",
            **({"ttlMs": None, "pollIntervalMs": 1} if self.is_stateless else {"ttl": None, "pollInterval": 1}),
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
            asked = {"q1": {"method": method, "params": fields}}
            return self.task("input_required", inputRequests=asked)
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
            {"type": "text", "text": "a", "annotations": {"audience": ["user"], "priority": 1}},
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

    def tool_slow(self, *_):
        raise Silence

    def tool_gone(self, arguments, *_):
        """Answer once another call has been given up."""
        with self.changed:
            came = self.changed.wait_for(lambda: self.gone, arguments.get("wait", PATIENCE_S))
        return text(f"given up: {bool(came)}")

    def tool_progress(self, arguments, params, _):
        token = params.get("_meta", {}).get("progressToken")
        for step in range(1, 4):
            if token is not None:
                yield note("progress", progressToken=token, progress=step, total=3, message=f"step {step}")
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
                asked = {n: {"method": QUESTIONS[n][0], "params": QUESTIONS[n][1]} for n in names}
                return {"resultType": "input_required", "inputRequests": asked, "requestState": "s-1"}
            return text(json.dumps([answers, params.get("requestState")], sort_keys=True))
        answers = []
        for name in names:
            method, fields = QUESTIONS[name]
            self.asked = getattr(self, "asked", 0) + 1
            answer = yield {"jsonrpc": "2.0", "id": f"q{self.asked}", "method": method, "params": fields}
            answers.append({k: v for k, v in answer.items() if k in {"result", "error"}})
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
            raise Reply(arguments["status"], arguments.get("fields", {}), arguments.get("body", ""))
        return text("in the end")

    # What is told unasked...

    def say(self, message):
        """Tell something on the stream that is for it, once it is there."""
        with self.changed:
            self.kept.append(message)
            self.flush()
        return ()

    def flush(self):
        for message in list(self.kept):
            targets = [id for id in self.listeners if self.is_wanted(message, self.listeners[id])]
            for id in targets:
                params = dict(message["params"])
                if self.is_stateless:
                    params["_meta"] = {META + "subscriptionId": id}
                self.push(id, {**message, "params": params})
            if targets:
                self.kept.remove(message)

    def is_wanted(self, message, wanted):
        method, params = message["method"][14:], message["params"]
        if not self.is_stateless:
            return True
        if method == "resources/updated":
            return params["uri"] in wanted.get("resourceSubscriptions", ())
        return wanted.get(method.partition("/")[0] + "ListChanged", False)

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
    """Go on until the end or a question, whose id comes back."""
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
        return text(f"given up: {bool(self.gone)}")  # what came before has been read

    def write(self, message):
        data = message if type(message) is bytes else json.dumps(message).encode() + b"\n"
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


class HttpPeer(Peer):
    """The same over HTTP; requests are heads and messages."""

    session = "session-1"

    def __init__(self, era, **options):
        super().__init__(era, **options)
        self.waiting = {}
        self.streams = {}
        self.lock = threading.Lock()

    def push(self, id, message):
        self.streams[id].put(message)


class Handler(BaseHTTPRequestHandler):
    """One connection of a client."""

    protocol_version = "HTTP/1.1"
    server_version, sys_version = "peer", ""

    @property
    def peer(self):
        return self.server.peer

    def log_message(self, *_):
        """Say nothing."""

    def note(self, body=None):
        fields = {name.lower(): value for name, value in self.headers.items()}
        with self.peer.lock:
            self.peer.seen.append([self.command, self.path, fields, body])

    def reply(self, status, body=b"", **fields):
        self.send_response_only(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_DELETE(self):
        self.note()
        self.reply(200)

    def do_GET(self):
        self.note()
        if self.peer.is_stateless or self.peer.options.get("no_get"):
            self.reply(405, Allow="POST")
            return
        is_legacy = self.peer.era == OLDEST
        outgoing = self.peer.streams[None] = queue.SimpleQueue()
        self.begin_stream()
        if is_legacy:
            self.write_event("/messages", "endpoint")
        with self.peer.changed:
            self.peer.listeners[None] = {}
            self.peer.flush()
        self.relay(outgoing, None)
        self.peer.listeners.pop(None, None)

    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.peer.era == OLDEST and self.path != "/messages":
            self.note()
            self.reply(405, Allow="GET")
            return
        message = json.loads(body)
        self.note(message)
        known = self.headers.get("Mcp-Session-Id") in {None, self.session}
        if not known:
            self.reply(404)
        elif "method" not in message:
            self.accepted()
            self.go_on(*self.peer.waiting.pop(message["id"]), message)
        elif "id" in message:
            self.answer(message)
        else:
            self.peer.note_message(message)
            self.accepted()

    @property
    def session(self):
        return f"session-{self.peer.begun}"

    def accepted(self):
        self.reply(202)

    def answer(self, message):
        id = message["id"]
        is_legacy = self.peer.era == OLDEST
        outgoing = self.peer.streams[None] if is_legacy else queue.SimpleQueue()
        self.peer.streams[id] = outgoing
        if is_legacy:
            self.accepted()
        self.go_on(id, self.peer.answer(message), None)
        if is_legacy:
            return
        first = outgoing.get() if not outgoing.empty() else None
        if type(first) is dict and "method" not in first:
            fields = {"Mcp_Session_Id": self.session} if message["method"] == "initialize" else {}
            status = 404 if self.peer.is_stateless and first.get("error", {}).get("code") == -32601 else 200
            self.reply(status, json.dumps(first).encode(), Content_Type="application/json", **fields)
        elif type(first) is Leave:
            self.close_connection = True
        elif type(first) is Raw:
            self.reply(200, first.args[0].encode(), Content_Type="application/json")
        elif type(first) is Reply:
            status, fields, body = first.args
            self.reply(status, body.encode(), **fields)
        else:
            self.begin_stream()
            if first is not None:
                self.write_event(first)
            self.relay(outgoing, id)

    def go_on(self, id, steps, value):
        outgoing = self.peer.streams[id]
        try:
            self.peer.waiting[run(steps, value, outgoing.put)] = id, steps
        except StopIteration as end:
            outgoing.put({"jsonrpc": "2.0", "id": id, "result": end.value})
        except Fail as error:
            outgoing.put({"jsonrpc": "2.0", "id": id, "error": failure(error)})
        except (Leave, Raw, Reply) as error:
            outgoing.put(error)
        except Silence:
            pass

    def begin_stream(self):
        self.send_response_only(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.close_connection = True
        self.end_headers()

    def write_event(self, data, event="message"):
        data = data if type(data) is str else json.dumps(data)
        self.wfile.write(f"event: {event}\ndata: {data}\n\n".encode())

    def relay(self, outgoing, id):
        """Write what comes until the answer is there or the client has gone."""
        while True:
            with contextlib.suppress(queue.Empty):
                message = outgoing.get(timeout=0.005)
                if type(message) is Leave:
                    return
                with contextlib.suppress(OSError):
                    self.write_event(message)
                if id is not None and message.get("id") == id and "method" not in message:
                    return
                continue
            if select.select([self.connection], [], [], 0)[0]:
                self.peer.note_gone(id)
                return


class WebServer(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 64

    def handle_error(self, *_):
        """A client that goes is no error."""


@contextlib.contextmanager
def serve(era, **options):
    """Serve over HTTP in threads, all of which have ended at the end."""
    server = WebServer(("127.0.0.1", 0), Handler)
    server.peer = HttpPeer(era, **options)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield server.peer, server.server_address[1]
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


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

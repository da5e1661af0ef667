"""`Server`: tools, resources and prompts made of functions, served in both eras.

Components may be registered and removed while the server runs: each change updates the
capabilities in `dispatcher`. The transports are `stdio` and `http`.
"""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar, Unpack, overload

from mcpwire.limits import Limits, check_timeout
from mcpwire.protocol.methods import METHODS, TASKS, find_method, methods_of
from mcpwire.server.auth.resource_server import ResourceServer
from mcpwire.server.calling import FunctionCaller
from mcpwire.server.completions import Completions
from mcpwire.server.components import Table, check_options, check_page_size, compose
from mcpwire.server.context import Context, Services
from mcpwire.server.dispatcher import Dispatcher, wrap_handlers
from mcpwire.server.input_rounds import SingleUse, StateSealer, get_rounds
from mcpwire.server.lifespan import Lifespan
from mcpwire.server.notifications import (
    PROMPTS,
    RESOURCES,
    TOOLS,
    UPDATED,
    Hub,
    OpenSubscriptions,
    Subscriptions,
)
from mcpwire.server.prompts import Prompt, get_prompt, make_prompt
from mcpwire.server.resources import Resources
from mcpwire.server.tools import Tool, Tools, make_tool
from mcpwire.types import decode
from mcpwire.types.lifecycle import Implementation
from mcpwire.versions import REVISIONS, Revision, parse_revisions

if TYPE_CHECKING:
    from asyncio import StreamReader, StreamWriter
    from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
    from os import PathLike

    from mcpwire.server.components import (
        DirectoryKeywords,
        FileKeywords,
        Handle,
        PromptKeywords,
        ResourceKeywords,
        ToolKeywords,
        Visible,
    )
    from mcpwire.server.dispatcher import AroundRequest, Handler
    from mcpwire.server.extensions import Extension
    from mcpwire.server.http.app import AsgiApp
    from mcpwire.server.request import RequestContext
    from mcpwire.transports.base import Inbound
    from mcpwire.transports.custom import ReceiveFn, SendFn
    from mcpwire.transports.memory import MemoryChannel
    from mcpwire.types import Icon

    LifespanFn = Callable[["Server"], AbstractAsyncContextManager[Any]]

SERVER_LIMITS: Final[Limits] = Limits(inbound=1_024)
"""The default limits of a `Server`: more concurrent requests than a client would
accept."""

_CAPABILITY_OF: Final = {TOOLS: "tools", PROMPTS: "prompts", RESOURCES: "resources"}
"""The notification of a change -> the capability that it belongs to."""

_CAPABILITY_SETTINGS: Final[Mapping[str, Mapping[str, Any]]] = {
    "completions": {},
    "prompts": {"listChanged": True},
    "resources": {"subscribe": True, "listChanged": True},
    "tools": {"listChanged": True},
}

_INPUT_METHODS: Final = frozenset(spec.name for spec in METHODS if spec.may_need_input)

F = TypeVar("F", bound="Callable[..., Any]")


class Server:
    """An MCP server of five revisions, on stdio, over HTTP and in memory.

    ::

        server = mcpwire.Server("demo", "1.0")


        @server.tool
        async def add(a: int, b: int) -> int:
            "Add two numbers."
            return a + b


        server.run()

    Components may change while the server runs; subscribed clients are notified. One
    server object serves any number of connections, of both eras.

    Args:
        name: Its name, for programs.
        version: Its version.
        title: Its name for people.
        description: Its purpose.
        website_url: A page with more information.
        icons: `types.Icon` values, or their URLs.
        instructions: How a model should use it.
        lifespan: Returns the async context manager that is entered before the first
            handler runs and exited when no client is served any more. The value that it
            yields is `Context.lifespan`.
        limits: Limits on the resources that one client can use.
        revisions: The supported protocol revisions; all of them by default.
        page_size: How many components one page of a list has; ``None``: all of them.
        visible: Takes a `Context` and a component; returns whether the component exists
            for the request. It applies to lists and to calls.
        on_duplicate: The effect of registering a second component with the same name:
            ``"error"``, ``"replace"`` or ``"ignore"``.
        state_keys: Secrets that seal the state that a client of 2026-07-28 keeps
            between the rounds of a call, the newest first. Several processes behind one
            URL need the same; by default a random one is made.
        single_use: Records which of those sealed states were used, so that none is
            used twice, such as a `MemorySingleUse`. A client then cannot continue its
            call after a broken connection, so ``None``, the default, allows a state to
            be used again until it expires.
        ask_timeout: How long a client may take to answer a server request, in seconds.
        tool_timeout: The timeout of tools without their own timeout, in seconds.
        thread_limit: How many plain functions run at once.
        coerce: Whether arguments of a wrong type are converted where that is safe.
        validate_output: Whether structured results are validated against the schema of
            their tool before they are sent.
        auth: Authenticates clients over HTTP; ``None``: all clients are accepted.
        extensions: `Tasks`, `Skills` and others.

    Raises:
        TypeError: An option has a wrong type; the message names it.
        ValueError: An option has a wrong value; the message names it.
    """

    def __init__(
        self,
        name: str,
        version: str = "0",
        *,
        title: str | None = None,
        description: str | None = None,
        website_url: str | None = None,
        icons: Iterable[Icon | str] = (),
        instructions: str | None = None,
        lifespan: LifespanFn | None = None,
        limits: Limits = SERVER_LIMITS,
        revisions: Iterable[Revision | str] = REVISIONS,
        page_size: int | None = None,
        visible: Visible | None = None,
        on_duplicate: str = "error",
        state_keys: Iterable[bytes] = (),
        single_use: SingleUse | None = None,
        ask_timeout: float = 600.0,
        tool_timeout: float | None = None,
        thread_limit: int = 64,
        coerce: bool = False,
        validate_output: bool = True,
        auth: ResourceServer | None = None,
        extensions: Iterable[Extension] = (),
    ) -> None:
        self.name = name
        self.version = version
        self._ask_timeout = check_timeout(ask_timeout, "ask_timeout")
        if not isinstance(auth, ResourceServer | None):  # such as a client's token
            raise TypeError(f"auth takes a ResourceServer, got a {type(auth).__name__}")
        self.auth = auth
        if lifespan is not None and not callable(lifespan):
            raise TypeError(f"lifespan must be a function, got {lifespan!r}")
        self.lifespan = Lifespan()
        if lifespan is not None:
            self.lifespan.add(partial(self._enter_lifespan, lifespan))
        texts = {"name": name, "version": version, "website_url": website_url or ""}
        for option, value in texts.items():
            if not isinstance(value, str):
                raise TypeError(f"{option} must be a text, got {value!r}")
        common = {"title": title, "description": description, "icons": icons}
        check_options("tool", common)
        self._info = decode(
            Implementation,
            compose({"name": name, "version": version}, common, websiteUrl=website_url),
        )
        self._instructions = instructions
        self.revisions = parse_revisions(revisions)
        self._limits = limits
        self._dispatcher: Dispatcher | None = None
        self._services = Services(
            server=self,
            sealer=StateSealer(
                state_keys, rounds=limits.input_rounds, single_use=single_use
            ),
        )
        self._declared: set[str] = set()
        self._mounted_in: list[Server] = []
        self._extensions: list[Extension] = []
        self._middleware: list[tuple[str | None, AroundRequest]] = []
        self._methods: dict[str, Handler] = {}
        self._hub = Hub()
        self._caller = FunctionCaller(
            partial(Context, services=self._services), thread_limit=thread_limit
        )
        self._make_tool = partial(
            make_tool,
            coerce=coerce,
            timeout=check_timeout(tool_timeout, "tool_timeout"),
            validate_output=validate_output,
        )

        size = check_page_size(page_size)

        def table(noun: str, listed: str, method: str) -> Table[Any]:
            return Table(
                noun,
                listed=listed,
                page_size=size,
                on_duplicate=on_duplicate,
                visible=visible,
                caller=self._caller,
                on_changed=partial(self._notify_changed, method),
            )

        self._tools = Tools(table("tool", "tools", TOOLS))
        self._resources = Resources(
            table("resource", "resources", RESOURCES),
            table("resource template", "resourceTemplates", RESOURCES),
        )
        self._prompts: Table[Prompt] = table("prompt", "prompts", PROMPTS)
        self._completions = Completions(self._prompts, self._resources)
        self._subscriptions = Subscriptions(
            self._hub,
            subscriptions=OpenSubscriptions(limits.listens),
            capabilities=self._capabilities,
            watchable_uris=self._watchable_uris,
        )
        self._services.resources, self._services.tools = self._resources, self._tools
        for extension in extensions:
            self.extend(extension)

    def __repr__(self) -> str:
        return f"<Server {self.name!r} {self.version}>"

    @asynccontextmanager
    async def _enter_lifespan(self, lifespan: LifespanFn) -> AsyncIterator[None]:
        async with lifespan(self) as value:
            self._services.lifespan = value
            try:
                yield
            finally:
                # The next lifespan may have begun, on another loop or during this exit.
                if self._services.lifespan is value:
                    self._services.lifespan = None

    @property
    def tools(self) -> Table[Tool]:
        """The tools by name, as handles: ``server.tools["add"]``."""
        return self._tools.table

    @property
    def resources(self) -> Resources:
        """The resources by URI and the templates by URI template, as handles."""
        return self._resources

    @property
    def prompts(self) -> Table[Prompt]:
        """The prompts by name, as handles."""
        return self._prompts

    # Tools

    @overload
    def tool(self, function: F, /) -> F: ...

    @overload
    def tool(self, **options: Unpack[ToolKeywords]) -> Callable[[F], F]: ...

    def tool(  # type: ignore[misc] # it takes all options of the second one
        self, function: Any = None, /, **options: Any
    ) -> Any:
        """Register a function as a tool, with or without parentheses.

        The decorator returns the function unchanged. Its parameters define the schema
        of the arguments, its docstring the description, and its return hint the schema
        of the structured result; see `add_tool` for the options.

        Raises:
            TypeError: The function cannot be a tool; names the parameter and why.
            ValueError: An option is invalid, or the name is taken.
        """
        return self._register("tool", self.add_tool, function, options)

    def add_tool(
        self, function: Callable[..., Any], **options: Unpack[ToolKeywords]
    ) -> Handle[Tool]:
        """Register a function as a tool; see `ToolKeywords` for the options.

        Returns:
            The handle to remove, replace, hide or show it.

        Raises:
            TypeError: The function cannot be a tool; names the parameter and why.
            ValueError: An option is invalid, or the name is taken.
        """
        return self.tools.add(self._make_tool(function, options))

    # Resources, prompts, completion

    def resource(
        self, uri: str, **options: Unpack[ResourceKeywords]
    ) -> Callable[[F], F]:
        """Register a function as a resource, or as a template if the URI has braces.

        ::

            @server.resource("greet://{name}")
            def greet(name: str) -> str:
                return f"hello {name}"

        The return value is the content: a text, bytes, JSON values, contents of
        `mcpwire.types`, or a list of them. ``None`` means that the resource does not
        exist. The values of template variables are safe as paths: ``..`` and absolute
        paths match nothing, unless `unchecked` names the variable.

        Raises:
            TypeError: The function and the URI do not match; names the parameter.
            ValueError: The URI or an option is invalid, or the URI is taken.
        """
        if not isinstance(uri, str):
            raise TypeError('a resource needs its URI: @server.resource("...")')

        def register(function: F) -> F:
            self.add_resource(uri, function, **options)
            return function

        return register

    def add_resource(
        self, uri: str, content: Any, **options: Unpack[ResourceKeywords]
    ) -> Handle[Any]:
        """Register a function, or the content itself, as a resource.

        Returns:
            The handle to remove, replace, hide or show it.

        Raises:
            TypeError: The function and the URI do not match; names the parameter.
            ValueError: The URI or an option is invalid, or the URI is taken.
        """
        return self.resources.add(uri, content, **options)

    @overload
    def prompt(self, function: F, /) -> F: ...

    @overload
    def prompt(self, **options: Unpack[PromptKeywords]) -> Callable[[F], F]: ...

    def prompt(  # type: ignore[misc] # it takes all options of the second one
        self, function: Any = None, /, **options: Any
    ) -> Any:
        """Register a function as a prompt, with or without parentheses.

        It returns a text, a message of `mcpwire.types`, or a list of them. Arguments
        are texts on the wire; they are converted to the types of the parameters.

        Raises:
            TypeError: The function cannot be a prompt; names the parameter and why.
            ValueError: An option is invalid, or the name is taken.
        """
        return self._register("prompt", self.add_prompt, function, options)

    def add_prompt(
        self, function: Callable[..., Any], **options: Unpack[PromptKeywords]
    ) -> Handle[Prompt]:
        """Register a function as a prompt.

        Raises:
            TypeError: The function cannot be a prompt; names the parameter and why.
            ValueError: An option is invalid, or the name is taken.
        """
        return self.prompts.add(make_prompt(function, options))

    def completion(self, reference: str, argument: str) -> Callable[[F], F]:
        """Register a function that completes an argument.

        It takes the text typed so far, and optionally, as a second parameter, the
        values of the other arguments; it returns the matching values, best first.

        Args:
            reference: The name of a prompt, or a URI template.
            argument: The argument, or the variable.

        Raises:
            TypeError: The function cannot complete; names it and why.
            ValueError: The argument has a function already.
        """

        def register(function: F) -> F:
            self._completions.add(reference, argument, function)
            self._check_completions()
            return function

        return register

    def add_file(
        self, uri: str, path: str | PathLike[str], **options: Unpack[FileKeywords]
    ) -> Handle[Any]:
        """Register a file as a resource.

        Raises:
            ValueError: The URI or an option is invalid, or the URI is taken.
        """
        return self.resources.add_file(uri, path, **options)

    def add_directory(
        self, uri: str, path: str | PathLike[str], **options: Unpack[DirectoryKeywords]
    ) -> Handle[Any]:
        """Register the files below a folder as resources.

        Raises:
            ValueError: The URI or an option is invalid, or the URI is taken.
        """
        return self.resources.add_directory(uri, path, **options)

    # Changes

    def notify_tools_changed(self) -> None:
        """Notify clients that the list of tools has changed; from any thread.

        Registration and removal send this by themselves: the method is for a changed
        outcome of a `visible` predicate.
        """
        self._notify_changed(TOOLS)

    def notify_prompts_changed(self) -> None:
        """Notify clients that the list of prompts has changed; from any thread."""
        self._notify_changed(PROMPTS)

    def notify_resources_changed(self) -> None:
        """Notify clients that the list of resources has changed; from any thread."""
        self._notify_changed(RESOURCES)

    def notify_resource_updated(self, uri: str) -> None:
        """Notify the clients that subscribed to a resource that its content changed.

        From any thread; several calls in one iteration of a loop send one notification.
        """
        self._hub.notify(UPDATED, uri)
        for other in self._mounted_in:
            other.notify_resource_updated(uri)

    def _notify_changed(self, method: str) -> None:
        self._declare_capability(_CAPABILITY_OF[method])
        self._check_completions()
        self._hub.notify(method)

    def _check_completions(self) -> None:
        """Declare the capability of completions once any argument has completions."""
        if "completions" not in self._declared and self._completions.is_needed():
            self._declare_capability("completions")

    def _declare_capability(self, kind: str) -> None:
        if kind not in self._declared:
            self._declared.add(kind)
            self._update_dispatcher()
            for other in self._mounted_in:
                other._declare_capability(kind)  # noqa: SLF001 - a server like this one

    # Mounting, methods, middleware, extensions

    def mount(self, other: Server, prefix: str = "") -> None:
        """Include the present and future components of another server.

        Its handlers get its own lifespan and server in their context. Its extensions,
        middleware and raw methods are not included.

        Args:
            other: The other server.
            prefix: The prefix of the names of its tools and prompts, followed by an
                underscore; URIs stay unchanged.

        Raises:
            ValueError: A server cannot be mounted on itself.
        """
        prefix = f"{prefix}_" if prefix else ""
        self.tools.mount(other.tools, prefix)
        self.prompts.mount(other.prompts, prefix)
        self.resources.table.mount(other.resources.table, "")
        self.resources.templates.mount(other.resources.templates, "")
        other._mounted_in.append(self)
        for kind in other._declared:
            self._declare_capability(kind)
        self.lifespan.include(other.lifespan)

    def method(self, name: str) -> Callable[[F], F]:
        """Register a handler for a method, of the protocol or a custom one.

        It takes the params, as a dict, and the `RequestContext`, and returns the
        result as a dict, or a coroutine of it. It takes precedence over the server's
        own handler.
        """

        def register(function: F) -> F:
            self._methods[name] = function
            self._update_dispatcher()
            return function

        return register

    @overload
    def middleware(self, around: F, /) -> F: ...

    @overload
    def middleware(self, method: str, /) -> Callable[[F], F]: ...

    def middleware(self, around: Any, /) -> Any:
        """Wrap a function around every request, or around those of one method.

        It takes the params, the request and the next handler, and returns the result;
        see `mcpwire.server.dispatcher`. The protocol's own methods (`initialize`,
        `ping`, `server/discover`, `logging/setLevel`) are not wrapped.
        """
        if isinstance(around, str):
            return partial(self._add_middleware, around)
        return self._add_middleware(None, around)

    def _add_middleware(self, method: str | None, around: F) -> F:
        self._middleware.append((method, around))
        self._update_dispatcher()
        return around

    def extend(self, extension: Extension) -> None:
        """Add an extension, as the constructor's `extensions` does.

        Raises:
            ValueError: The extension cannot be added to this server.
        """
        if any(other.id == extension.id for other in self._extensions):
            raise ValueError(f"the extension {extension.id!r} is already registered")
        self._extensions.append(extension)
        extension.attach(self)
        self._update_dispatcher()
        if extension.id == TASKS:
            tasks: Any = extension
            self._tools.tasks = self._subscriptions.tasks = tasks
            self.lifespan.add(partial(aclosing, tasks))  # tasks end with the server

    # Serving

    @property
    def dispatcher(self) -> Dispatcher:
        """The object that transports serve: it routes requests to handlers."""
        if self._dispatcher is None:
            self._dispatcher = Dispatcher(
                self._info,
                capabilities=self._capabilities(),
                methods=self._handlers(),
                instructions=self._instructions,
                revisions=self.revisions,
                limits=self._limits,
                auth=self.auth,
                lifespan=self.lifespan,
                param_headers=self._tools.param_headers,
                hub=self._hub,
                ask_timeout=self._ask_timeout,
            )
            self._tools.warn_about_tasks()
        return self._dispatcher

    def _update_dispatcher(self) -> None:
        if self._dispatcher is not None:
            self._dispatcher.declare(self._capabilities(), self._handlers())

    def _capabilities(self) -> dict[str, Any]:
        """Return the declared capabilities, by the names of the newest revision."""
        capabilities: dict[str, Any] = {"logging": {}}
        for kind, settings in _CAPABILITY_SETTINGS.items():
            if kind in self._declared:
                capabilities[kind] = dict(settings)
        for name in self._methods:
            spec = find_method(name)
            if spec is not None and spec.capability and spec.extension is None:
                capabilities.setdefault(spec.capability.partition(".")[0], {})
        if self._extensions:
            capabilities["extensions"] = {e.id: e.settings for e in self._extensions}
            for extension in self._extensions:
                capabilities |= getattr(extension, "legacy_capabilities", {})
        return capabilities

    def _handlers(self) -> dict[str, Handler]:
        """Return the handlers by method; the author's own take precedence."""
        tools, resources, prompts = self._tools, self._resources, self._prompts
        features: dict[str, dict[str, Handler]] = {
            "tools": {"tools/list": tools.table.page, "tools/call": tools.call},
            "resources": {
                "resources/list": resources.table.page,
                "resources/templates/list": resources.templates.page,
                "resources/read": resources.read,
                "resources/subscribe": resources.subscribe,
                "resources/unsubscribe": resources.unsubscribe,
            },
            "prompts": {
                "prompts/list": prompts.page,
                "prompts/get": partial(get_prompt, prompts),
            },
            "completions": {"completion/complete": self._completions.complete},
        }
        methods: dict[str, Handler] = {}
        for kind, handlers in features.items():
            if kind in self._declared:
                methods |= handlers
        if not self._declared.isdisjoint(_CAPABILITY_OF.values()):
            methods["subscriptions/listen"] = self._subscriptions.listen
        for extension in self._extensions:
            methods |= extension.methods()
        extensions = {extension.id for extension in self._extensions}
        supported = {
            spec.name
            for revision in self.revisions
            for spec in methods_of(revision, "client", extensions)
        }
        methods = {
            name: handler
            for name, handler in methods.items()
            if name in supported or find_method(name) is None
        }
        methods |= self._methods
        for method in _INPUT_METHODS & methods.keys():
            methods[method] = self._wrap_in_rounds(methods[method])
        return wrap_handlers(methods, self._middleware)

    def _wrap_in_rounds(self, handler: Handler) -> Handler:
        """Wrap a handler, so that it finds the client's answers of earlier rounds."""

        def handle(params: dict[str, Any], request: RequestContext) -> Any:
            if "requestState" in params or "inputResponses" in params:
                get_rounds(request, self._services.sealer)
            return handler(params, request)

        return handle

    def _watchable_uris(
        self, uris: Sequence[str], request: RequestContext
    ) -> list[str]:
        # Only the author's own handler knows the existing URIs.
        if "resources/read" in self._methods:
            return list(uris)
        return self._resources.watchable_uris(uris, request)

    def open_in_memory(self, client: Inbound, limits: Limits) -> MemoryChannel:
        """Serve one client in this process; `Client(server)` does."""
        return self.dispatcher.open_in_memory(client, limits)

    async def serve_stdio(self) -> None:
        """Serve one client on stdin and stdout until the input ends.

        Both are reserved for the protocol until then: output of handlers and their
        child processes goes to stderr. Cancellation ends it within a second.
        """
        from mcpwire.server.stdio import serve_stdio

        await serve_stdio(self.dispatcher)

    async def serve_stream(self, reader: StreamReader, writer: StreamWriter) -> None:
        """Serve one client over a byte stream; fits `asyncio.start_server`.

        The framing is that of stdio: one JSON text per line. Requests received before
        the end are still answered, if that takes less than 0.2 seconds. Cancellation
        cancels the handlers and closes the stream, in bounded time.
        """
        from mcpwire.server.connection import serve
        from mcpwire.transports.custom import Stream

        await serve(self.dispatcher, Stream((reader, writer), name="a stream"))

    async def serve_messages(
        self, send: SendFn, receive: ReceiveFn, **options: Any
    ) -> None:
        """Serve one client over single messages, such as those of a WebSocket.

        It returns when `receive` reports the end, or either function raises.
        Cancellation ends it as it ends `serve_stream`.

        Args:
            send: Sends one message; plain or async.
            receive: An async function that returns one message: a ``dict``, ``str`` or
                bytes. ``None``, `EOFError` and `StopAsyncIteration` are the end.
            options: `close` and `form`; see `Messages`.

        Raises:
            ValueError: An argument is invalid.
        """
        from mcpwire.server.connection import serve
        from mcpwire.transports.custom import Messages

        await serve(self.dispatcher, Messages(send, receive, **options))

    def asgi(self, path: str = "/mcp", **options: Any) -> AsgiApp:
        """Return the server as an ASGI application; see `AsgiApp` for the options.

        It runs under any ASGI server and can be mounted in any framework; it does not
        need the framework to run its lifespan.
        """
        from mcpwire.server.http.app import AsgiApp

        options.setdefault("ask_timeout", self._ask_timeout)
        return AsgiApp(self.dispatcher, path=path, **options)

    def run(self, *, http: str | None = None, **options: Any) -> None:
        """Serve as the main work of the process: on stdio, or over HTTP.

        Args:
            http: ``"HOST:PORT"`` to serve HTTP there; port 0 takes a free port.
            options: Those of `asgi`, for HTTP, and ``quiet=True``: write to stderr
                neither the URL nor a line for each request.

        Raises:
            RuntimeError: An event loop is running in this thread: await `serve_stdio`
                or serve `asgi` there.
            SystemExit: A signal ended the server; the exit code names the signal.
        """
        from mcpwire.server.stdio import run_server

        run_server(self, http, options)

    @staticmethod
    def _register(
        kind: str, add: Callable[..., Any], function: Any, options: Mapping[str, Any]
    ) -> Any:
        """Implement a decorator with or without parentheses."""
        if isinstance(function, str):
            raise TypeError(f"name the {kind} by name=, got {function!r}")

        def register(function: F) -> F:
            add(function, **options)
            return function

        return register if function is None else register(function)

"""Blocking versions of the functions that are not methods of a client."""

from __future__ import annotations

from functools import wraps
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

from mcpwire.client import client as clients
from mcpwire.client import login as logins
from mcpwire.client import tasks
from mcpwire.sync._facade import run_with
from mcpwire.sync._runner import Runner

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from mcpwire.client import Client as AsyncClient
    from mcpwire.sync._generated import Client

__all__ = [
    "begin_login",
    "cancel_task",
    "finish_login",
    "get_task",
    "list_tasks",
    "login",
    "login_status",
    "logout",
    "resolve_links",
    "start_task",
    "update_task",
    "wait_for_task",
]

P = ParamSpec("P")
T = TypeVar("T")


def _with_client(
    function: Callable[Concatenate[AsyncClient, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Client, P], T]:
    """Make a blocking version of an async function that takes a client first."""

    @wraps(function)
    def call(client: Client, /, *args: P.args, **options: P.kwargs) -> T:
        return run_with(client, function, *args, **options)

    return call


def _without_client(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """Make a blocking version of an async function without a client."""

    @wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        runner = Runner()
        try:
            return runner.run(function(*args, **options))
        finally:
            runner.end()

    return call


resolve_links = _with_client(clients.resolve_links)
cancel_task = _with_client(tasks.cancel_task)
get_task = _with_client(tasks.get_task)
list_tasks = _with_client(tasks.list_tasks)
start_task = _with_client(tasks.start_task)
update_task = _with_client(tasks.update_task)
wait_for_task = _with_client(tasks.wait_for_task)
begin_login = _without_client(logins.begin_login)
finish_login = _without_client(logins.finish_login)
login = _without_client(logins.login)
login_status = logins.login_status
logout = _without_client(logins.logout)

"""Both eras on both sides: how requests, questions and notifications cross the gateway.

::

    client ── request ──► forward ──────────► RelayClient ──► server
       ▲                     │ rounds, parking     │
       │                     ▼                     │ RelayFeatures: questions
       └──── Downstream ◄── Relay ◄────────────────┘ RelayInbound: notifications

A `Relay` stands beside each connection to a server. A `Downstream` is whom a set of
such connections belongs to: one session, or all that shares the set.
"""

from mcpwire.gateway.bridge.client import RelayClient, RelayFeatures, make_client
from mcpwire.gateway.bridge.downstream import (
    Downstream,
    SessionDownstream,
    StandaloneDownstream,
)
from mcpwire.gateway.bridge.forwarding import forward
from mcpwire.gateway.bridge.headers import take_headers
from mcpwire.gateway.bridge.parking import Parking
from mcpwire.gateway.bridge.relay import Relay
from mcpwire.gateway.bridge.subscriptions import (
    follow,
    forget_session,
    listen,
    roots_changed,
    set_level,
    subscribe,
    unsubscribe,
)
from mcpwire.gateway.bridge.tasks import (
    TASK_CAPABILITIES,
    task_capabilities,
    task_methods,
)

__all__ = [
    "TASK_CAPABILITIES",
    "Downstream",
    "Parking",
    "Relay",
    "RelayClient",
    "RelayFeatures",
    "SessionDownstream",
    "StandaloneDownstream",
    "follow",
    "forget_session",
    "forward",
    "listen",
    "make_client",
    "roots_changed",
    "set_level",
    "subscribe",
    "take_headers",
    "task_capabilities",
    "task_methods",
    "unsubscribe",
]

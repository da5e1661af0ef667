"""Intended differences between our classes and the schemas, each with its reason."""

from typing import Any

from mcpwire import types

# --- definitions without a class, and why

ENVELOPE = "an envelope: mcpwire.wire.jsonrpc"
ERROR = "a JSON-RPC error: mcpwire.errors"
UNION = "a union of messages; the method table of mcpwire.protocol has it"
BASE = "a base that its members repeat; they are compared"
LEAF = "a name for a leaf; it is compared where it is used"
OPEN = "JSON that stays open"

EXCLUDED = {
    **dict.fromkeys(
        (
            *("JSONRPCBatchRequest", "JSONRPCBatchResponse", "JSONRPCError"),
            *("JSONRPCErrorResponse", "JSONRPCMessage", "JSONRPCNotification"),
            *("JSONRPCRequest", "JSONRPCResponse", "JSONRPCResultResponse"),
            *("Notification", "PaginatedRequest", "Request"),
        ),
        ENVELOPE,
    ),
    **dict.fromkeys(
        (
            *("Error", "HeaderMismatchError", "InternalError", "InvalidParamsError"),
            *("InvalidRequestError", "MethodNotFoundError"),
            *("MissingRequiredClientCapabilityError", "ParseError"),
            *("URLElicitationRequiredError", "UnsupportedProtocolVersionError"),
        ),
        ERROR,
    ),
    **dict.fromkeys(
        (
            *("ClientNotification", "ClientRequest", "ClientResult"),
            *("ServerNotification", "ServerRequest", "ServerResult"),
        ),
        UNION,
    ),
    **dict.fromkeys(
        (
            *("Annotated", "BaseMetadata", "CacheableResult", "Icons"),
            *("InputResponseRequestParams", "PaginatedResult", "ResourceContents"),
            *("ResourceRequestParams", "TaskAugmentedRequestParams"),
        ),
        BASE,
    ),
    **dict.fromkeys(
        (
            *("Cursor", "LoggingLevel", "ProgressToken", "RequestId", "ResultType"),
            *("Role", "TaskStatus"),
        ),
        LEAF,
    ),
    **dict.fromkeys(("JSONArray", "JSONObject", "JSONValue", "MetaObject"), OPEN),
}

# Unions: each is our alias of the same name, or the closest one.
UNIONS: dict[str, Any] = {
    "ContentBlock": types.ContentBlock,
    "ElicitRequestParams": types.ElicitRequestParams,
    "EnumSchema": types.PrimitiveSchemaDefinition,
    "InputRequest": types.InputRequest,
    "InputRequests": types.InputRequests,
    "InputResponse": types.InputResponse,
    "InputResponses": types.InputResponses,
    "MultiSelectEnumSchema": types.PrimitiveSchemaDefinition,
    "PrimitiveSchemaDefinition": types.PrimitiveSchemaDefinition,
    "SamplingMessageContentBlock": types.SamplingContent,
    "SingleSelectEnumSchema": types.PrimitiveSchemaDefinition,
}

# Definitions whose class has another name.
RENAMED: dict[str, type] = {
    "EnumSchema": types.LegacyTitledEnumSchema,  # in 2025-06-18, where it is no union
    "ResourceReference": types.ResourceTemplateReference,
    "Result": types.EmptyResult,
}

# The params of messages whose params have another name.
PARAMS: dict[str, type] = {
    "DiscoverRequest": types.RequestParams,
    "InitializedNotification": types.NotificationParams,
    "ListPromptsRequest": types.PaginatedRequestParams,
    "ListResourceTemplatesRequest": types.PaginatedRequestParams,
    "ListResourcesRequest": types.PaginatedRequestParams,
    "ListRootsRequest": types.ListRootsRequestParams,
    "ListTasksRequest": types.PaginatedRequestParams,
    "ListToolsRequest": types.PaginatedRequestParams,
    "PingRequest": types.RequestParams,
    "PromptListChangedNotification": types.NotificationParams,
    "ResourceListChangedNotification": types.NotificationParams,
    "RootsListChangedNotification": types.NotificationParams,
    "ToolListChangedNotification": types.NotificationParams,
}

# --- intended differences from the schema, and why

WIDER = {
    (
        "CallToolResult",
        "structuredContent",
    ): "an object until 2025-11-25, then any JSON",
    (
        "ToolResultContent",
        "structuredContent",
    ): "an object in 2025-11-25, then any JSON",
    ("SamplingMessage", "content"): "one block until 2025-06-18, then several",
    ("CreateMessageResult", "content"): "one block until 2025-06-18, then several",
    ("ElicitResult", "content"): "no lists in 2025-06-18; numbers became integers when "
    "the schema was generated, all revisions' text says numbers",
}
OURS = {
    ("SubscriptionFilter", "taskIds"): "of the extension io.modelcontextprotocol/tasks"
}

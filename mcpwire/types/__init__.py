"""The wire types of all five revisions, and the codec between them and JSON.

Each type of the specification is one class with the fields of all revisions; fields
that a revision lacks are absent in its messages. Importing this package imports no
types: the first use of a name imports its module.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from mcpwire._package import lazy_names

if TYPE_CHECKING:
    from mcpwire.types._base import UNSET as UNSET
    from mcpwire.types._base import Json as Json
    from mcpwire.types._base import JsonObject as JsonObject
    from mcpwire.types._base import RequestParams as RequestParams
    from mcpwire.types._base import Unset as Unset
    from mcpwire.types._base import WireType as WireType
    from mcpwire.types._codec import decode as decode
    from mcpwire.types._codec import decoder as decoder
    from mcpwire.types._codec import encode as encode
    from mcpwire.types._codec import encoder as encoder
    from mcpwire.types.client_features import *
    from mcpwire.types.content import *
    from mcpwire.types.lifecycle import *
    from mcpwire.types.prompts import *
    from mcpwire.types.requests import *
    from mcpwire.types.resources import *
    from mcpwire.types.skills import *
    from mcpwire.types.tasks import *
    from mcpwire.types.tools import *

MODULES: Final = {
    "_base": """
        UNSET Json JsonObject RequestParams Unset WireType
    """,
    "_codec": """
        decode decoder encode encoder
    """,
    "client_features": """
        BooleanSchema CreateMessageRequest CreateMessageRequestParams
        CreateMessageResult ElicitAction ElicitRequest ElicitRequestFormParams
        ElicitRequestParams ElicitRequestURLParams ElicitResult
        ElicitationCompleteNotificationParams EnumItems EnumOption
        IncludeContext InputRequest InputRequests InputRequiredResult
        InputResponse InputResponses LegacyTitledEnumSchema ListRootsRequest
        ListRootsRequestParams ListRootsResult ModelHint ModelPreferences
        NumberSchema PrimitiveSchemaDefinition RequestedSchema Root
        SamplingContent SamplingMessage StringFormat StringSchema
        TitledEnumItems TitledMultiSelectEnumSchema TitledSingleSelectEnumSchema
        ToolChoice ToolChoiceMode ToolResultContent ToolUseContent
        UnknownInputRequest UnknownInputResponse UnknownSchema
        UntitledMultiSelectEnumSchema UntitledSingleSelectEnumSchema
    """,
    "content": """
        Annotations AudioContent BlobResourceContents ContentBlock
        EmbeddedResource Icon ImageContent ResourceContents ResourceLink Role
        TextContent TextResourceContents Theme UnknownContent
    """,
    "skills": """
        GetSkillRequestParams GetSkillResult ListSkillsResult
        ReadResourceDirectoryRequestParams ReadResourceDirectoryResult Skill
        SkillResource
    """,
    "lifecycle": """
        ClientCapabilities ClientTaskRequests ClientTasksCapability
        DiscoverResult ElicitationCapability Implementation
        InitializeRequestParams InitializeResult PromptsCapability
        ResourcesCapability RootsCapability SamplingCapability
        ServerCapabilities ServerTaskRequests ServerTasksCapability
        ToolsCapability
    """,
    "prompts": """
        GetPromptRequestParams GetPromptResult ListPromptsResult Prompt
        PromptArgument PromptMessage
    """,
    "resources": """
        ListResourceTemplatesResult ListResourcesResult
        ReadResourceRequestParams ReadResourceResult Resource ResourceTemplate
        ResourceUpdatedNotificationParams SubscribeRequestParams
        UnsubscribeRequestParams
    """,
    "tasks": """
        CancelTaskRequestParams CancelTaskResult CreateTaskResult CreatedTask
        DetailedTask GetTaskPayloadRequestParams GetTaskPayloadResult
        GetTaskRequestParams GetTaskResult ListTasksResult RelatedTaskMetadata
        Task TaskMetadata TaskStatus TaskStatusNotificationParams
        UpdateTaskRequestParams
    """,
    "tools": """
        CallToolRequestParams CallToolResult ListToolsResult TaskSupport Tool
        ToolAnnotations ToolExecution
    """,
    "requests": """
        CancelledNotificationParams CompleteRequestParams CompleteResult
        Completion CompletionArgument CompletionContext CompletionReference
        EmptyResult LoggingLevel LoggingMessageNotificationParams
        NotificationMetaObject NotificationParams PaginatedRequestParams
        ProgressNotificationParams ProgressToken PromptReference RequestId
        RequestMetaObject ResourceTemplateReference ResultMetaObject
        SetLevelRequestParams SubscriptionFilter
        SubscriptionsAcknowledgedNotificationParams
        SubscriptionsListenRequestParams SubscriptionsListenResult
        SubscriptionsListenResultMetaObject
    """,
}

_load, __dir__, __all__ = lazy_names(__name__, MODULES)

if not TYPE_CHECKING:  # a type checker would take any name for a public one
    __getattr__ = _load

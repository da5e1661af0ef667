"""In which module each public name of `mcpwire.types` is at home."""

from __future__ import annotations

from typing import Final

__all__ = ["HOME"]

_MODULES: Final = {
    "_codec.base": """
        UNSET Json JsonObject Unset WireType
    """,
    "_codec.wire": """
        decode decoder encode encoder
    """,
    "content": """
        Annotations AudioContent BlobResourceContents ContentBlock
        EmbeddedResource Icon ImageContent ResourceContents ResourceLink Role
        TextContent TextResourceContents Theme UnknownContent
    """,
    "elicitation": """
        BooleanSchema ElicitAction ElicitRequestFormParams ElicitRequestParams
        ElicitRequestURLParams ElicitResult
        ElicitationCompleteNotificationParams EnumItems EnumOption
        LegacyTitledEnumSchema NumberSchema PrimitiveSchemaDefinition
        RequestedSchema StringFormat StringSchema TitledEnumItems
        TitledMultiSelectEnumSchema TitledSingleSelectEnumSchema UnknownSchema
        UntitledMultiSelectEnumSchema UntitledSingleSelectEnumSchema
    """,
    "skills": """
        GetSkillRequestParams GetSkillResult ListSkillsResult
        ReadResourceDirectoryRequestParams ReadResourceDirectoryResult Skill
        SkillResource
    """,
    "input": """
        CreateMessageRequest ElicitRequest InputRequest InputRequests
        InputRequiredResult InputResponse InputResponses ListRootsRequest
        ListRootsRequestParams ListRootsResult Root UnknownInputRequest
        UnknownInputResponse
    """,
    "lifecycle": """
        ClientCapabilities ClientTaskRequests ClientTasksCapability
        DiscoverResult ElicitationCapability Implementation
        InitializeRequestParams InitializeResult PromptsCapability
        ResourcesCapability RootsCapability SamplingCapability
        ServerCapabilities ServerTaskRequests ServerTasksCapability
        ToolsCapability
    """,
    "meta": """
        NotificationMetaObject RequestMetaObject ResultMetaObject
        SubscriptionsListenResultMetaObject
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
    "sampling": """
        CreateMessageRequestParams CreateMessageResult IncludeContext
        ModelHint ModelPreferences SamplingContent SamplingMessage ToolChoice
        ToolChoiceMode ToolResultContent ToolUseContent
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
        NotificationParams PaginatedRequestParams ProgressNotificationParams
        ProgressToken PromptReference RequestId RequestParams
        ResourceTemplateReference SetLevelRequestParams SubscriptionFilter
        SubscriptionsAcknowledgedNotificationParams
        SubscriptionsListenRequestParams SubscriptionsListenResult
    """,
}

HOME: Final = {
    name: module for module, names in _MODULES.items() for name in names.split()
}

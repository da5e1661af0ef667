"""MCP over the stdin and stdout of a process, ours or a child's."""

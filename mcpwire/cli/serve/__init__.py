"""``mcpwire serve``: run somebody's server object, on stdio or over HTTP."""

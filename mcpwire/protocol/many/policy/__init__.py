"""What may be called of the tools of many servers, with what, and how it is told."""

"""Programs that run on another event loop."""

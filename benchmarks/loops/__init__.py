"""Running what is measured on another event loop."""

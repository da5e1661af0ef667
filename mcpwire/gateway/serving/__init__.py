"""How a gateway is reached, on stdio and over HTTP, and reloaded."""

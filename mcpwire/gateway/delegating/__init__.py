"""What a gateway adds to the results of tools: content of somebody else's."""

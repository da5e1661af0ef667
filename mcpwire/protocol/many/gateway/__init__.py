"""What a gateway decides: who its servers are, what its session ids hold."""

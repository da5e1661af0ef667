"""What a protected resource decides without I/O: credentials, claims, proofs, texts."""

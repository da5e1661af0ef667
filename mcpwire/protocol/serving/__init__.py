"""What a server decides: rules of the protocol that only the serving side has."""

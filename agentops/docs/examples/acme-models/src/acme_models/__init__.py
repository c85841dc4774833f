"""The models of a server of our own."""

"""The network of a command that was granted some: named hosts, through a proxy, and nothing else (SPEC I7, S3)."""

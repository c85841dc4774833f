"""Command lines of operations: what they do is in ``agentops.ops`` and ``agentops.evidence``."""

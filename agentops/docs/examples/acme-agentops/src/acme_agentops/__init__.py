"""An example of a package for AgentOps: see its guide, agentops/docs/guides/execution-loop.md."""

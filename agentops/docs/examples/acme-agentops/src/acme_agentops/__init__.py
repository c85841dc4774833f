"""An example of a package for AgentOps: see its guide, agentops/docs/extending.md."""

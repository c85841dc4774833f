"""What AgentOps does when root starts it: a user of its own, and the state folder in its hands."""

"""Meeting rooms for agents."""

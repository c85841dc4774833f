"""The command line of ``agentops``: submit, watch, fork, steer (SPEC T3)."""

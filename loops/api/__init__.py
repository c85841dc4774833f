"""REST endpoints: read what was sent, call one service, translate the result (SPEC T2)."""

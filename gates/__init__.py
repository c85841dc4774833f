"""Gates: durable questions to people, and their decisions (SPEC Q)."""

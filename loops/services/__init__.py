"""Use cases: each function is one, in one transaction, with its permission and its audit row."""

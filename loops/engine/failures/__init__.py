"""Classes of failure and what follows from them (SPEC E1): rules first, a model only where no rule is sure."""

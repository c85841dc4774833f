"""Gates and decisions for programs."""

"""An agent of our own."""

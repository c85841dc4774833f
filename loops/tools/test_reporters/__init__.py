"""What test runners load to report single tests, each language in a folder of its own, and how they are told to."""

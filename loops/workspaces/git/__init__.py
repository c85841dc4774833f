"""A person's repository of git, read and added to by its files: no program of git runs, and nothing it would run."""

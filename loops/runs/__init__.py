"""One run from its claim to its release: what builds its world, its beginning, its recovery, its worker."""

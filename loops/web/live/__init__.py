"""Pages that follow a run: one hub a process, one query, one rendering for each kind of reader."""

"""Journal, rows, blobs, mailbox, breakers and feed: SQL and bytes, no use cases."""

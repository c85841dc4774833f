"""Text of others, made fit to be read: look-alikes, invisible signs, what steers a terminal."""

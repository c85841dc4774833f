"""Other engines at the same work, in an environment and a process of their own (`make bench` installs them)."""

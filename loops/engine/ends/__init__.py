"""Why and with what a run ends: the reasons, and what each end leaves behind."""

"""Signs, in what a run changed, of a check that passes without the work (SPEC L2, Q3). Pure: bytes in, remarks out."""

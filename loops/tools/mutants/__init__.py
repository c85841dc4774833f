"""Small changes of the lines that a run changed: tests that notice none of them test little (SPEC X4). Pure."""

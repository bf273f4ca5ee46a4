"""Cost of drafting and verifying by its source, with its range: pure functions."""

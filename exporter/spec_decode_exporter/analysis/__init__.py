"""From windows to an evaluation: pure functions, no input or output, no clock."""

"""From windows to findings: pure functions, no input or output, no clock."""

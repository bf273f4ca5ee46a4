"""The chart, and what keeps it in step with the rest of the project."""

"""From findings to metric families: one table of metrics."""

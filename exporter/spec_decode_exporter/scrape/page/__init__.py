"""Metrics pages: from bytes to one sample for each engine."""

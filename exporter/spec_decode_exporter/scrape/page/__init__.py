"""Metrics pages: parse bytes into one sample for each engine."""

"""Comparison of two measurements."""

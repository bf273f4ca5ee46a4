"""Experiments: arms that are compared, and their differences."""

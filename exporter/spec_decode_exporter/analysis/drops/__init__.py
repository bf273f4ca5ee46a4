"""Drops of the acceptance length: records and formulas."""

"""Windowed figures: one formula for each, from the sums of a window."""

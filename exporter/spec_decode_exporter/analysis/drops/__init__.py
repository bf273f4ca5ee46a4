"""Drops of the acceptance length: variance, baselines and cumulative sums."""

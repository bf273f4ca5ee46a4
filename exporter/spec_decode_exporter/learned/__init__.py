"""Learned state of an engine: step times, costs and baselines."""

"""Drops of acceptance and of drafting."""

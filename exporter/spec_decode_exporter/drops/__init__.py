"""Drops of the tokens per draft or per decode step."""

"""Findings about one engine: one function each, with its text and severity."""

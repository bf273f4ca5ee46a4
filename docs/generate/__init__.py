"""Generators of the documents that follow from tables and schemas in the code."""

"""Measured references: what a server did before a change, kept in a file to be held against it later."""

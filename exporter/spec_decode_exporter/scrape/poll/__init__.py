"""Polls: when to ask a server, which page, and how to handle the response."""

"""Polls: schedule, page choice, server details and records."""

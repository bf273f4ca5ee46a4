"""Checks and steps of a release: ``make release-check``, ``make changelog``."""

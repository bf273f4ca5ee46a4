"""Composition root: build the stages from a configuration, start, reload and stop them."""

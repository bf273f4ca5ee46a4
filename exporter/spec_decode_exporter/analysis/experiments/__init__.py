"""Experiments: compare arms of engines that serve the same work."""

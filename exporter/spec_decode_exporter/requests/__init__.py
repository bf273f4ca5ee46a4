"""Speculation of single requests: reading, counting, bounded storage, findings and advice."""

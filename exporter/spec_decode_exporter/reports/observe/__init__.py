"""Report of an observation."""

"""Report of a history."""

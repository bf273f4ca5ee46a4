"""HTTP client: one bounded GET at a time over a persistent connection."""

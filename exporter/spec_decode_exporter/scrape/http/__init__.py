"""HTTP client: one bounded GET at a time over a connection that stays open."""

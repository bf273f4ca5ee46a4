"""Windows: exact sums of increments over the last seconds and minutes."""

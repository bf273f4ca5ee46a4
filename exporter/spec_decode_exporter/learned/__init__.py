"""What an engine shows over hours: steps by load, the cost of drafting, its time without speculation."""

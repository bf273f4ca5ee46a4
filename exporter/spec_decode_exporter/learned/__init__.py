"""Knowledge of an engine over hours: steps by load, the cost of drafting, its time without speculation."""

"""Foundation of every layer: clock, events, logging, background tasks, bounded files."""

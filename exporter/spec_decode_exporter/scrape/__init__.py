"""From a server's bytes to one sample for each of its engines."""

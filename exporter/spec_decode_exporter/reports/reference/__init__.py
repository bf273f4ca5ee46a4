"""References: measurements of servers in a file, to compare with later ones."""

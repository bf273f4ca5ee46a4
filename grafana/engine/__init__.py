"""The dashboard of one engine: a module for each question of its rows."""

"""Configuration: the schema, and a loader that reports every mistake with its line."""

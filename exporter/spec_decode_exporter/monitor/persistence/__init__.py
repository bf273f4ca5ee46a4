"""Persistence: learned state of engines over restarts of the exporter."""

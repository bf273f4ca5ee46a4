"""Metrics: tables of rows, collector and renderer."""

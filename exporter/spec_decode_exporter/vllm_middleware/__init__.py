"""Middleware inside vLLM: one file that reports each request to the exporter."""

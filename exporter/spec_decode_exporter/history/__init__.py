"""History of engines, read from a Prometheus-compatible server."""

"""Documentation and files for Prometheus and Grafana, served under ``/docs/``."""

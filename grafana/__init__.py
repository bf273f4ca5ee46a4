"""The Grafana dashboards, as code: ``python -m grafana`` writes them to ``grafana/dashboards``."""

"""Writes the recording rules, the alerts, their tests and docs/alerts.md from tables and ``settings.yml``.

Prometheus knows no variables in rules. Here every threshold stands once, and every alert once.
"""

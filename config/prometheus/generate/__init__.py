"""Write recording rules, alerts, their tests and docs/guide/alerts.md from tables and ``settings.yml``.

Prometheus knows no variables in rules. Here every threshold stands once, and every alert once.
"""

"""Benchmarks of the README: ``python -m benchmarks`` runs all, ``python -m benchmarks.NAME`` one."""

"""What the README quotes, runnable: ``python -m benchmarks`` runs all, ``python -m benchmarks.NAME`` one."""

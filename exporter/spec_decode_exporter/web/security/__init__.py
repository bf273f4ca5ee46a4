"""Access control by ``--web.config.file``: TLS, passwords, rate limit; the format of exporter-toolkit."""

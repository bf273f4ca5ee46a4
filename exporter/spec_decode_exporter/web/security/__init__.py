"""Who may see the pages: the file of ``--web.config.file``, as the exporters of Prometheus have it."""

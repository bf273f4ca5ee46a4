"""Reports for terminals, Markdown and programs: one set of parts, writers and exit statuses."""

"""The report of an observation: what is to be said, and how a terminal, Markdown and JSON say it."""

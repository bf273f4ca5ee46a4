"""Model of a server and its traffic: the truth of verdicts. It reads no cost that the exporter knows."""

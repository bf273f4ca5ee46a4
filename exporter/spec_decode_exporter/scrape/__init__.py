"""Scrape: fetch metrics pages and read one sample for each engine."""

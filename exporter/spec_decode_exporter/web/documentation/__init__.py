"""Documentation that the exporter serves; ``python -m docs.generate.pages`` writes its pages."""

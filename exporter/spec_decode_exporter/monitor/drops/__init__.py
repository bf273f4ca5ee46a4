"""Drop detectors: their state between polls."""

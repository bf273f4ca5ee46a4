"""Drop detectors: state between polls."""

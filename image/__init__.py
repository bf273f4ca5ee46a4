"""Build of the container image: see docs/image.md."""

"""Build of the container image: see docs/guide/image.md."""

"""What the image is made with: see docs/image.md."""

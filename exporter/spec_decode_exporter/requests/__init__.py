"""What single requests say of their own speculation, and what a mix of them hides."""

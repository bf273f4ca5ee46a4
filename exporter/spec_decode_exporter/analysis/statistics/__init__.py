"""Statistics: estimates and their 95 % bounds."""

"""What the operator writes, checked: the schema, and its loading with every mistake at its place."""

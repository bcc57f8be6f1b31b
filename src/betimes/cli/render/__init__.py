"""Text, tables and times for terminals."""

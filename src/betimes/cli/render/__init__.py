"""Text, tables and times as a terminal shows them."""

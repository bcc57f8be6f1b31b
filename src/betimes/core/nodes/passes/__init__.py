"""A scheduling pass: who starts now, on which nodes, who makes room, and who has a reservation."""

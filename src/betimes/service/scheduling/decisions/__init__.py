"""The policy in force: its engine, its planner, its selections, and what is made of its decisions."""

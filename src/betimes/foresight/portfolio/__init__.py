"""A portfolio of policies: each is simulated on the waiting jobs, and the best is put in force."""

"""A portfolio of policies: each is simulated on the jobs that wait, and the best is put in force."""

"""Arrays that are one job to the policy: sets of trials."""

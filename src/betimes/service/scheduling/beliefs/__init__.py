"""What is believed of jobs, and learnt from those before: run times, progress, restarts, speeds beside others."""

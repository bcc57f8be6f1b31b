"""What jobs are promised: the state is copied and played forward, and what comes of it is logged."""

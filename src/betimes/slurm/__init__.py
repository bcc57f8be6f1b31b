"""An existing Slurm, read as its users may: pictures of its queue, and the state from which a play-out begins."""

"""The machines that jobs run on: this one, those of a cluster file, and those of a cloud."""

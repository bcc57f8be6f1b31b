"""The machines that jobs run on."""

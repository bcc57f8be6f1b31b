"""Access to the service: tokens and addresses."""

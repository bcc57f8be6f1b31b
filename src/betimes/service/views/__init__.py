"""What the service shows: models, and how they are made of its rows."""

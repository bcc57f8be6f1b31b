"""The shipped policies, and policies in a user's own file."""

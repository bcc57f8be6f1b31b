"""The routes of the API, grouped by what they are about."""

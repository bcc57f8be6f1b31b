"""The compiled pool engine against worked cases, the slow object model, and itself."""

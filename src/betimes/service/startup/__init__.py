"""The service put together: on a disk, or in memory, and served."""

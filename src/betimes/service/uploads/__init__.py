"""Directories that are sent along with jobs: how one is packed (`archive`), and the archives that are kept (`kept`)."""

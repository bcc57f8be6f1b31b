"""The command line: one file a verb group; `main` runs it and turns errors into one line and an exit code.

Nothing here imports NumPy, Numba, Arrow or Rich before a verb needs them, so that `betimes --help` is fast.
"""

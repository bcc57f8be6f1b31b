"""Write the golden outcomes anew: ``python -m tests.golden.regenerate`` in the root of the repository.

Do it when the schedules are meant to change, and only then. Read the difference before it is committed, and say in
CHANGELOG.md which policies decide otherwise now, and why: people compare their results with older ones.
"""

from __future__ import annotations

from tests.golden.outcomes import FILES, file_of, write


def main() -> None:
    for name in FILES:
        write(name)
        print(f"wrote {file_of(name)}")


if __name__ == "__main__":
    main()

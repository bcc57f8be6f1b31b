"""The packages that an installation of the client alone lacks, and the extras of `pip install` that have each."""

from __future__ import annotations

_ENGINES = ("numba", "numpy", "platformdirs", "scipy")
EXTRAS = {
    "simulate": (*_ENGINES, "matplotlib", "pyarrow"),
    "service": (
        *_ENGINES,
        "fastapi",
        "jinja2",
        "prometheus_client",
        "psutil",
        "pynvml",
        "sqlalchemy",
        "uvicorn",
    ),
    "tune": ("moocore", "plotly", "pymoo", "sklearn"),
}
"""The names that are imported, by the extra of pyproject.toml; `tune` brings `simulate` along, `all` is all three."""


def explained(missing: ModuleNotFoundError) -> ModuleNotFoundError:
    """The same error with what to install, where an extra has the package; else as it is: something else is wrong."""
    package = (missing.name or "").partition(".")[0]
    wanted = [f"pip install 'betimes[{extra}]'" for extra, packages in EXTRAS.items() if package in packages]
    if not wanted:
        return missing
    text = (
        f"this needs {package}, which is not installed: {' or '.join(wanted)}; 'betimes[all]' has everything"
    )
    return ModuleNotFoundError(text, name=missing.name)

"""pip's settings in the words of uv, which reads none of them: where packages are, and how to get there."""

from __future__ import annotations

import ast

# Of pip's settings, the variables that uv reads, and what separates several values in them; in pip it is white space.
_VARIABLES = {
    "index-url": (("UV_DEFAULT_INDEX",), " "),
    "extra-index-url": (("UV_EXTRA_INDEX_URL",), " "),
    "find-links": (("UV_FIND_LINKS",), ","),
    "trusted-host": (("UV_INSECURE_HOST",), " "),
    "cert": (("SSL_CERT_FILE",), None),
    "client-cert": (("SSL_CLIENT_CERT",), None),
    "proxy": (("HTTP_PROXY", "HTTPS_PROXY"), None),
    "timeout": (("UV_HTTP_TIMEOUT",), None),
    "default-timeout": (("UV_HTTP_TIMEOUT",), None),
    "retries": (("UV_HTTP_RETRIES",), None),
}
_SECTIONS = ("global", "install", ":env:")  # a later one prevails
_NO = {"", "0", "false", "no", "off"}

# As pip does: the newest version of all indexes, and the certificates that the system trusts.
_LIKE_PIP = {"UV_INDEX_STRATEGY": "unsafe-best-match", "UV_SYSTEM_CERTS": "1"}


def for_uv(listing: str) -> tuple[dict[str, str], list[str]]:
    """The variables and the options for ``uv pip install`` that say what ``pip config list`` printed.

    Variables rather than options where there is one, since addresses may hold a password.
    """
    settings = _settings(listing)
    variables = dict(_LIKE_PIP)
    for name, value in settings.items():
        if name in _VARIABLES and value:
            names, separator = _VARIABLES[name]
            variables |= dict.fromkeys(names, value if separator is None else separator.join(value.split()))
    return variables, [] if settings.get("no-index", "").lower() in _NO else ["--no-index"]


def _settings(listing: str) -> dict[str, str]:
    """The value that prevails of each setting; lines are such as ``global.index-url='https://...'``."""
    found: dict[str, dict[str, str]] = {section: {} for section in _SECTIONS}
    for line in listing.splitlines():
        key, _, value = line.partition("=")
        section, _, name = key.partition(".")
        if section in found:
            found[section][name] = str(ast.literal_eval(value))
    return {name: value for section in _SECTIONS for name, value in found[section].items()}

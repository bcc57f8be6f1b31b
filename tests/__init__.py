"""Tests; a package, because a dependency installs one of the same name."""

"""Any tables of settings, right or wrong, for whatever reads them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from pydantic import BaseModel

_ANY = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=9) | st.just("1h"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


def any_tables(model: type[BaseModel]) -> st.SearchStrategy[Any]:
    """Mostly lists of tables with names of a model's fields, and any values."""
    keys = st.sampled_from([*(field.alias or name for name, field in model.model_fields.items()), "x"])
    return st.lists(st.dictionaries(keys, _ANY, max_size=5) | _ANY, max_size=3) | _ANY

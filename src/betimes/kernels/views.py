"""Views of structs: another type for the same address, with some of the fields, under names of its own."""

from __future__ import annotations

from typing import Any, get_type_hints

from betimes.kernels.settings import INTERPRETED
from betimes.kernels.structs import Struct, layout_of


def view_by(view: type[Struct], of: type[Struct], **renamed: str) -> Any:
    """A function from a struct of type `of` to the `view` of it, a struct type with some of its fields.

    renamed: fields of the view that have another name in the struct. To a kernel the view is the same address; Python
    gets an object that is made once for every struct.
    """
    view._views, view._names = of, renamed

    def interpreted(struct: Struct) -> Struct:
        found = struct.__dict__.get(view.__name__)
        if found is None:
            found = view.__new__(view)
            names = get_type_hints(view)
            shown = {
                name: struct.__dict__[renamed.get(name, name)]
                for name in names
                if name in layout_of(view).fields
            }
            found.__dict__.update(shown, address=struct.address, _of=struct)
            struct.__dict__[view.__name__] = found
        return found

    if INTERPRETED:
        return interpreted
    from betimes.kernels.struct_types import viewing

    return viewing(view, of, interpreted)

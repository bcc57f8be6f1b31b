"""How many machines to own: the number at which owned and rented machines together cost least."""

from betimes.foresight.sizing.fleet import Fleet, Sizing, size_fleet

__all__ = ["Fleet", "Sizing", "size_fleet"]

"""A function with the number of arguments that it takes, and helpers to declare many that are alike."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from floe.arrow.values.rows import Compiled, Function, Site
from floe.spec.types import Type

__all__ = ["ANY", "Known", "known", "plain"]

ANY = 1_000_000
"""As many arguments as one likes."""


@dataclass(frozen=True, slots=True)
class Known:
    """A function, and the least and largest number of its arguments."""

    make: Function
    least: int
    most: int


def known(make: Function, least: int, most: int | None = None) -> Known:
    """A function of so many arguments."""
    return Known(make, least, least if most is None else most)


def plain(result: Type, kernel: Callable[..., pa.Array], *types: Type, optional: int = 0) -> Known:
    """A function whose arguments are cast to fixed types, and whose kernel does the rest.

    The last `optional` arguments may be left out, and the kernel has defaults for them.
    """

    def make(site: Site, values: Sequence[Compiled]) -> Compiled:
        given = [site.cast(value, type_) for value, type_ in zip(values, types, strict=False)]
        return site.eager(result, given, kernel)

    return Known(make, len(types) - optional, len(types))

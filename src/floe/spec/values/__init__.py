"""The Python values of each type: checking them, converting input to them, and printing and parsing them as text.

| type | value |
|---|---|
| boolean | `bool` |
| int, long | `int` |
| float, double | `float`; for float one that 32 bits hold exactly |
| decimal | `decimal.Decimal` with the scale of the type |
| date | `int`, days from 1970-01-01 |
| time | `int`, microseconds from midnight |
| timestamp, timestamptz | `int`, microseconds from 1970-01-01T00:00:00 (of UTC for timestamptz) |
| timestamp_ns, timestamptz_ns | `int`, nanoseconds likewise |
| string | `str` |
| uuid | `uuid.UUID` |
| fixed, binary | `bytes` |
| geometry, geography | `bytes`, well-known binary |
| struct | `dict` by field name; a child that is missing has its default, or is null |
| list | `list` |
| map | `dict`, or a list of (key, value) pairs where keys are structs, lists or maps |
| variant | `bytes`, the encoded metadata followed by the encoded value |
| unknown | `None` |

`None` is null, in every type. Dates and timestamps are integers because the format's range exceeds that of `datetime`.

Modules, in reading order:

| module | subject |
|---|---|
| `value_checks` | whether something is a value of a type |
| `conversion` | input (dates, text, NumPy scalars, …) to values |
| `text` | values to text and back |
| `value_order` | the order of values: sort keys and comparison |
| `exact_numbers` | decimals and floats without rounding |
| `civil_time` | calendar arithmetic and ISO-8601 text |

>>> from floe.spec.types import TIMESTAMPTZ, parse_type
>>> convert(TIMESTAMPTZ, "2017-11-16T14:31:08-08:00")
1510871468000000
>>> to_text(TIMESTAMPTZ, 1510871468000000)
'2017-11-16T22:31:08+00:00'
>>> convert(parse_type("decimal(9,2)"), "14.205")
Traceback (most recent call last):
floe.errors.InvalidValue: '14.205' is not a value of type decimal(9, 2): it has more than 2 digits after the point; ...
"""

from __future__ import annotations

from floe.spec.values.conversion import convert
from floe.spec.values.text import parse_text, to_text
from floe.spec.values.value_checks import check, make_map, map_items

__all__ = ["check", "convert", "make_map", "map_items", "parse_text", "to_text"]

"""Text: case, length, parts, padding, search and replacement. Positions count characters, from 1."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.values.casts import for_each_value
from floe.arrow.values.compiled import ANY, Compiled, Known, Site, known, plain
from floe.errors import InvalidValue
from floe.spec.types import BINARY, BOOLEAN, INT, STRING


def _length(site: Site, values: Sequence[Compiled]) -> Compiled:
    """Characters of text, bytes of binary values."""
    (value,) = values
    if value.type.kind in ("binary", "fixed"):
        return site.eager(INT, [site.cast(value, BINARY)], pc.binary_length)
    return site.eager(INT, [site.cast(value, STRING)], pc.utf8_length)


def _in_case(fast: Callable[[pa.Array], pa.Array], slow: Callable[[str], str]) -> Callable[[pa.Array], pa.Array]:
    """Upper or lower case; of letters beyond ASCII as Unicode says, which turns one into two at times."""
    return lambda array: fast(array) if _is_ascii(array) else for_each_value(array, slow, STRING, STRING)


def _concat(site: Site, values: Sequence[Compiled]) -> Compiled:
    """Texts joined, or bytes if all are bytes; null if one is null."""
    if values and all(value.type.kind in ("binary", "fixed") for value in values):
        return site.eager(BINARY, [site.cast(value, BINARY) for value in values], _joined_bytes)
    return site.eager(STRING, [site.cast(value, STRING) for value in values], _joined_texts)


def _joined_texts(*arrays: pa.Array) -> pa.Array:
    if not isinstance(arrays[0], pa.Array):  # concat() of nothing
        return pa.repeat("", arrays[0])
    return pc.binary_join_element_wise(*arrays, pa.scalar(""))


def _joined_bytes(*arrays: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*arrays, pa.scalar(b""))


def _concat_ws(site: Site, values: Sequence[Compiled]) -> Compiled:
    """Texts with a separator between them; nulls are left out."""
    separator, *texts = (site.cast(value, STRING) for value in values)

    def kernel(between: pa.Array, *arrays: pa.Array) -> pa.Array:
        if not arrays:
            return pc.if_else(between.is_valid(), "", between)
        joined = pc.binary_join_element_wise(*arrays, pc.fill_null(between, ""), null_handling="skip")
        return pc.if_else(between.is_valid(), joined, pa.scalar(None, pa.string()))

    return site.eager(STRING, [separator, *texts], kernel)


def _substring(text: pa.Array, start: pa.Array, length: pa.Array | None = None) -> pa.Array:
    """As in Spark: 1 and 0 are the first character, negative places count from the end."""
    if len(text) and _is_same(start) and (length is None or _is_same(length)):
        begin = start[0].as_py()
        count = None if length is None else length[0].as_py()
        if begin is not None and begin > -1 and (length is None or count is not None):
            begin = max(begin - 1, 0)
            stop = None if count is None else begin + max(count, 0)
            return pc.utf8_slice_codeunits(text, start=begin, stop=stop)
    counts = [None] * len(text) if length is None else length.to_pylist()
    rows = zip(text.to_pylist(), start.to_pylist(), counts, strict=True)
    return pa.array([_cut(one, at, count, length is None) for one, at, count in rows], pa.string())


def _cut(text: str | None, start: int | None, count: int | None, to_end: bool) -> str | None:
    if text is None or start is None or (count is None and not to_end):
        return None
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = len(text) if count is None else begin + max(count, 0)
    return text[max(begin, 0) : max(end, 0)]


def _is_same(array: pa.Array) -> bool:
    return len(array) == 1 or (
        array.null_count in (0, len(array)) and array.slice(1).equals(array.slice(0, len(array) - 1))
    )


def _left(text: pa.Array, count: pa.Array) -> pa.Array:
    return _substring(text, _ones(text), count)


def _right(text: pa.Array, count: pa.Array) -> pa.Array:
    rows = zip(text.to_pylist(), count.to_pylist(), strict=True)
    cut = [None if one is None or n is None else one[-n:] if n > 0 else "" for one, n in rows]
    return pa.array(cut, pa.string())


def _ones(array: pa.Array) -> pa.Array:
    return pa.repeat(pa.scalar(1, pa.int32()), len(array))


def _trim(kernel: Callable[..., pa.Array]) -> Known:
    """Blanks at the ends, or other characters: as in `trim(text, 'x')`."""

    def make(site: Site, values: Sequence[Compiled]) -> Compiled:
        letters = site.constant_of(site.cast(values[1], STRING), "characters") if len(values) > 1 else " "
        text = site.cast(values[0], STRING)
        return site.eager(STRING, [text], lambda array: kernel(array, characters=letters))

    return known(make, 1, 2)


def _pad(at_left: bool) -> Known:
    def make(site: Site, values: Sequence[Compiled]) -> Compiled:
        text, width = site.cast(values[0], STRING), site.cast(values[1], INT)
        fill = site.constant_of(site.cast(values[2], STRING), "a filling") if len(values) > 2 else " "

        def padded(one: str | None, count: int | None) -> str | None:
            if one is None or count is None or fill is None:
                return None
            missing = max(count - len(one), 0)
            more = (fill * (missing // max(len(fill), 1) + 1))[:missing]
            return (more + one if at_left else one + more)[: max(count, 0)]

        def kernel(texts: pa.Array, widths: pa.Array) -> pa.Array:
            return pa.array(map(padded, texts.to_pylist(), widths.to_pylist()), pa.string())

        return site.eager(STRING, [text, width], kernel)

    return known(make, 2, 3)


def _replace(site: Site, values: Sequence[Compiled]) -> Compiled:
    text = site.cast(values[0], STRING)
    old = site.constant_of(site.cast(values[1], STRING), "a text to look for")
    new = site.constant_of(site.cast(values[2], STRING), "a text to put") if len(values) > 2 else ""
    if old is None or new is None:
        return site.eager(STRING, [text], lambda array: pa.nulls(len(array), pa.string()))
    if not old:
        return text
    return site.eager(STRING, [text], lambda array: pc.replace_substring(array, pattern=old, replacement=new))


def _regexp_replace(site: Site, values: Sequence[Compiled]) -> Compiled:
    text = site.cast(values[0], STRING)
    pattern = site.constant_of(site.cast(values[1], STRING), "a pattern")
    new = site.constant_of(site.cast(values[2], STRING), "a replacement")
    if pattern is None or new is None:
        return site.eager(STRING, [text], lambda array: pa.nulls(len(array), pa.string()))
    if "$" in new:
        site.fail("regexp_replace cannot put groups of the match into the replacement")
    return site.eager(
        STRING,
        [text],
        lambda array: pc.replace_substring_regex(array, pattern=pattern, replacement=new.replace("\\", "\\\\")),
    )


def _pairwise(test: Callable[[str, str], object], type_: pa.DataType) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """A function of two texts, row by row; null if one is null."""

    def kernel(one: pa.Array, other: pa.Array) -> pa.Array:
        rows = zip(one.to_pylist(), other.to_pylist(), strict=True)
        return pa.array([None if a is None or b is None else test(a, b) for a, b in rows], type_)

    return kernel


def _searching(
    fast: Callable[..., pa.Array], slow: Callable[[str, str], object], type_: pa.DataType
) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """Looks for one text in another; by Arrow if it is the same in all rows."""
    row_by_row = _pairwise(slow, type_)

    def kernel(text: pa.Array, wanted: pa.Array) -> pa.Array:
        if len(wanted) and _is_same(wanted) and wanted[0].is_valid:
            return fast(text, pattern=wanted[0].as_py())
        return row_by_row(text, wanted)

    return kernel


def _find(text: pa.Array, pattern: str) -> pa.Array:
    return (
        pc.add(pc.find_substring(text, pattern=pattern), pa.scalar(1, pa.int32()))
        if pattern.isascii() and _is_ascii(text)
        else _pairwise(lambda a, b: a.find(b) + 1, pa.int32())(text, pa.repeat(pattern, len(text)))
    )


def _is_ascii(array: pa.Array) -> bool:
    return bool(pc.all(pc.fill_null(pc.string_is_ascii(array), True)).as_py())


_instr = _searching(_find, lambda a, b: a.find(b) + 1, pa.int32())


def _locate(wanted: pa.Array, text: pa.Array) -> pa.Array:
    return _instr(text, wanted)


def _repeat(text: pa.Array, count: pa.Array) -> pa.Array:
    counts = np.maximum(pc.fill_null(count, 0).to_numpy(zero_copy_only=False), 0)
    if len(counts) and int(counts.max()) > 10_000_000:
        raise InvalidValue(f"a text cannot be repeated {int(counts.max())} times")
    repeated = pc.binary_repeat(text, pa.array(counts, pa.int64()))
    return pc.if_else(count.is_valid(), repeated, pa.scalar(None, pa.string()))


def _split_part(text: pa.Array, separator: pa.Array, number: pa.Array) -> pa.Array:
    def part(one: str | None, between: str | None, which: int | None) -> str | None:
        if one is None or between is None or which is None:
            return None
        if which == 0:
            raise InvalidValue("split_part counts parts from 1")
        parts = one.split(between) if between else [one]
        place = which - 1 if which > 0 else len(parts) + which
        return parts[place] if 0 <= place < len(parts) else ""

    return pa.array(map(part, text.to_pylist(), separator.to_pylist(), number.to_pylist()), pa.string())


def _initcap(array: pa.Array) -> pa.Array:
    return for_each_value(array, lambda text: " ".join(word.capitalize() for word in text.split(" ")), STRING, STRING)


def _md5(array: pa.Array) -> pa.Array:
    return for_each_value(array, lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest(), BINARY, STRING)


def _sha2(site: Site, values: Sequence[Compiled]) -> Compiled:
    bits = site.constant_of(site.cast(values[1], INT), "a number of bits")
    make = {0: hashlib.sha256, 224: hashlib.sha224, 256: hashlib.sha256, 384: hashlib.sha384, 512: hashlib.sha512}.get(
        bits
    )
    if make is None:
        site.fail(f"sha2 knows 224, 256, 384 and 512 bits, found {bits}")
    value = site.cast(values[0], BINARY)
    return site.eager(
        STRING, [value], lambda array: for_each_value(array, lambda data: make(data).hexdigest(), BINARY, STRING)
    )


FUNCTIONS: dict[str, Known] = {
    **dict.fromkeys(("upper", "ucase"), plain(STRING, _in_case(pc.ascii_upper, str.upper), STRING)),
    **dict.fromkeys(("lower", "lcase"), plain(STRING, _in_case(pc.ascii_lower, str.lower), STRING)),
    "initcap": plain(STRING, _initcap, STRING),
    "reverse": plain(STRING, pc.utf8_reverse, STRING),
    **dict.fromkeys(("length", "len", "char_length", "character_length"), known(_length, 1)),
    **dict.fromkeys(("concat", "||"), known(_concat, 0, ANY)),
    "concat_ws": known(_concat_ws, 1, ANY),
    **dict.fromkeys(("substring", "substr"), plain(STRING, _substring, STRING, INT, INT, optional=1)),
    "left": plain(STRING, _left, STRING, INT),
    "right": plain(STRING, _right, STRING, INT),
    **dict.fromkeys(("trim", "btrim"), _trim(pc.utf8_trim)),
    "ltrim": _trim(pc.utf8_ltrim),
    "rtrim": _trim(pc.utf8_rtrim),
    "lpad": _pad(at_left=True),
    "rpad": _pad(at_left=False),
    "replace": known(_replace, 2, 3),
    "regexp_replace": known(_regexp_replace, 3),
    "repeat": plain(STRING, _repeat, STRING, INT),
    "startswith": plain(BOOLEAN, _searching(pc.starts_with, str.startswith, pa.bool_()), STRING, STRING),
    "endswith": plain(BOOLEAN, _searching(pc.ends_with, str.endswith, pa.bool_()), STRING, STRING),
    "contains": plain(BOOLEAN, _searching(pc.match_substring, lambda a, b: b in a, pa.bool_()), STRING, STRING),
    "instr": plain(INT, _instr, STRING, STRING),
    "locate": plain(INT, _locate, STRING, STRING),
    "split_part": plain(STRING, _split_part, STRING, STRING, INT),
    "md5": plain(STRING, _md5, BINARY),
    "sha2": known(_sha2, 2),
}

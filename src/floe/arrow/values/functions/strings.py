"""Functions of text: case, length, substrings, padding, search, replacement and hashes. Positions start at 1."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.arrow.values.casts import map_distinct
from floe.arrow.values.compiled import ANY, Compiled, Function, Site, function, typed_function
from floe.errors import InvalidValue
from floe.spec.types import BINARY, BOOLEAN, INT, STRING


def _length(site: Site, values: Sequence[Compiled]) -> Compiled:
    """Compile `length`: characters of text, bytes of binary values."""
    (value,) = values
    if value.type.kind in ("binary", "fixed"):
        return site.eager(INT, [site.cast(value, BINARY)], pc.binary_length)
    return site.eager(INT, [site.cast(value, STRING)], pc.utf8_length)


def _change_case(
    ascii_kernel: Callable[[pa.Array], pa.Array], unicode_function: Callable[[str], str]
) -> Callable[[pa.Array], pa.Array]:
    """A kernel for upper or lower case; text beyond ASCII needs Unicode rules, which may change its length."""
    return lambda array: (
        ascii_kernel(array) if _is_ascii(array) else map_distinct(array, unicode_function, STRING, STRING)
    )


def _concat(site: Site, values: Sequence[Compiled]) -> Compiled:
    """Compile `concat`: of texts, or of bytes if all arguments are bytes; null if one is null."""
    if values and all(value.type.kind in ("binary", "fixed") for value in values):
        return site.eager(BINARY, [site.cast(value, BINARY) for value in values], _join_bytes)
    return site.eager(STRING, [site.cast(value, STRING) for value in values], _join_texts)


def _join_texts(*arrays: pa.Array) -> pa.Array:
    if not isinstance(arrays[0], pa.Array):  # concat() without arguments gets the number of rows
        return pa.repeat("", arrays[0])
    return pc.binary_join_element_wise(*arrays, pa.scalar(""))


def _join_bytes(*arrays: pa.Array) -> pa.Array:
    return pc.binary_join_element_wise(*arrays, pa.scalar(b""))


def _concat_ws(site: Site, values: Sequence[Compiled]) -> Compiled:
    """Compile `concat_ws`: texts with a separator between them; nulls are skipped."""
    separator, *texts = (site.cast(value, STRING) for value in values)

    def kernel(separators: pa.Array, *arrays: pa.Array) -> pa.Array:
        if not arrays:
            return pc.if_else(separators.is_valid(), "", separators)
        joined = pc.binary_join_element_wise(*arrays, pc.fill_null(separators, ""), null_handling="skip")
        return pc.if_else(separators.is_valid(), joined, pa.scalar(None, pa.string()))

    return site.eager(STRING, [separator, *texts], kernel)


def _substring(text: pa.Array, start: pa.Array, length: pa.Array | None = None) -> pa.Array:
    """`substring` as in Spark: 1 and 0 are the first character, negative positions count from the end."""
    if len(text) and _is_constant(start) and (length is None or _is_constant(length)):
        begin = start[0].as_py()
        count = None if length is None else length[0].as_py()
        if begin is not None and begin > -1 and (length is None or count is not None):
            begin = max(begin - 1, 0)
            stop = None if count is None else begin + max(count, 0)
            return pc.utf8_slice_codeunits(text, start=begin, stop=stop)
    counts = [None] * len(text) if length is None else length.to_pylist()
    rows = zip(text.to_pylist(), start.to_pylist(), counts, strict=True)
    return pa.array(
        [_slice_text(row_text, row_start, count, length is None) for row_text, row_start, count in rows], pa.string()
    )


def _slice_text(text: str | None, start: int | None, count: int | None, to_end: bool) -> str | None:
    if text is None or start is None or (count is None and not to_end):
        return None
    begin = start - 1 if start > 0 else len(text) + start if start < 0 else 0
    end = len(text) if count is None else begin + max(count, 0)
    return text[max(begin, 0) : max(end, 0)]


def _is_constant(array: pa.Array) -> bool:
    """Whether all values are the same, so that one Arrow call can process the whole array."""
    return len(array) == 1 or (
        array.null_count in (0, len(array)) and array.slice(1).equals(array.slice(0, len(array) - 1))
    )


def _left(text: pa.Array, count: pa.Array) -> pa.Array:
    return _substring(text, _ones(text), count)


def _right(text: pa.Array, count: pa.Array) -> pa.Array:
    rows = zip(text.to_pylist(), count.to_pylist(), strict=True)
    suffixes = [
        None if row_text is None or row_count is None else row_text[-row_count:] if row_count > 0 else ""
        for row_text, row_count in rows
    ]
    return pa.array(suffixes, pa.string())


def _ones(array: pa.Array) -> pa.Array:
    return pa.repeat(pa.scalar(1, pa.int32()), len(array))


def _trim(kernel: Callable[..., pa.Array]) -> Function:
    """`trim`, `ltrim` and `rtrim`: remove spaces, or other characters as in `trim(text, 'x')`."""

    def compile_call(site: Site, values: Sequence[Compiled]) -> Compiled:
        characters = site.constant_of(site.cast(values[1], STRING), "characters") if len(values) > 1 else " "
        text = site.cast(values[0], STRING)
        return site.eager(STRING, [text], lambda array: kernel(array, characters=characters))

    return function(compile_call, 1, 2)


def _pad(at_left: bool) -> Function:
    def compile_call(site: Site, values: Sequence[Compiled]) -> Compiled:
        text, width = site.cast(values[0], STRING), site.cast(values[1], INT)
        padding = site.constant_of(site.cast(values[2], STRING), "a padding text") if len(values) > 2 else " "

        def pad(row_text: str | None, count: int | None) -> str | None:
            if row_text is None or count is None or padding is None:
                return None
            missing = max(count - len(row_text), 0)
            added = (padding * (missing // max(len(padding), 1) + 1))[:missing]
            return (added + row_text if at_left else row_text + added)[: max(count, 0)]

        def kernel(texts: pa.Array, widths: pa.Array) -> pa.Array:
            return pa.array(map(pad, texts.to_pylist(), widths.to_pylist()), pa.string())

        return site.eager(STRING, [text, width], kernel)

    return function(compile_call, 2, 3)


def _replace(site: Site, values: Sequence[Compiled]) -> Compiled:
    text = site.cast(values[0], STRING)
    old = site.constant_of(site.cast(values[1], STRING), "a searched text")
    new = site.constant_of(site.cast(values[2], STRING), "a replacement") if len(values) > 2 else ""
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
        site.fail("regexp_replace does not support groups ($) in the replacement")
    return site.eager(
        STRING,
        [text],
        lambda array: pc.replace_substring_regex(array, pattern=pattern, replacement=new.replace("\\", "\\\\")),
    )


def _pairwise(
    function_of_texts: Callable[[str, str], object], type_: pa.DataType
) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """A kernel that applies a function of two texts to each row; null if one is null."""

    def kernel(left: pa.Array, right: pa.Array) -> pa.Array:
        rows = zip(left.to_pylist(), right.to_pylist(), strict=True)
        return pa.array([None if a is None or b is None else function_of_texts(a, b) for a, b in rows], type_)

    return kernel


def _search(
    constant_kernel: Callable[..., pa.Array], row_function: Callable[[str, str], object], type_: pa.DataType
) -> Callable[[pa.Array, pa.Array], pa.Array]:
    """A kernel that searches one text in another; by an Arrow kernel if the searched text is the same in all rows."""
    row_by_row = _pairwise(row_function, type_)

    def kernel(text: pa.Array, searched: pa.Array) -> pa.Array:
        if len(searched) and _is_constant(searched) and searched[0].is_valid:
            return constant_kernel(text, pattern=searched[0].as_py())
        return row_by_row(text, searched)

    return kernel


def _find(text: pa.Array, pattern: str) -> pa.Array:
    return (
        pc.add(pc.find_substring(text, pattern=pattern), pa.scalar(1, pa.int32()))
        if pattern.isascii() and _is_ascii(text)
        else _pairwise(lambda a, b: a.find(b) + 1, pa.int32())(text, pa.repeat(pattern, len(text)))
    )


def _is_ascii(array: pa.Array) -> bool:
    return bool(pc.all(pc.fill_null(pc.string_is_ascii(array), True)).as_py())


_instr = _search(_find, lambda a, b: a.find(b) + 1, pa.int32())


def _locate(searched: pa.Array, text: pa.Array) -> pa.Array:
    return _instr(text, searched)


def _repeat(text: pa.Array, count: pa.Array) -> pa.Array:
    counts = np.maximum(pc.fill_null(count, 0).to_numpy(zero_copy_only=False), 0)
    if len(counts) and int(counts.max()) > 10_000_000:
        raise InvalidValue(f"a text cannot be repeated {int(counts.max())} times")
    repeated = pc.binary_repeat(text, pa.array(counts, pa.int64()))
    return pc.if_else(count.is_valid(), repeated, pa.scalar(None, pa.string()))


def _split_part(text: pa.Array, separator: pa.Array, number: pa.Array) -> pa.Array:
    def select_part(row_text: str | None, row_separator: str | None, part_number: int | None) -> str | None:
        if row_text is None or row_separator is None or part_number is None:
            return None
        if part_number == 0:
            raise InvalidValue("split_part numbers parts from 1, found 0")
        parts = row_text.split(row_separator) if row_separator else [row_text]
        index = part_number - 1 if part_number > 0 else len(parts) + part_number
        return parts[index] if 0 <= index < len(parts) else ""

    return pa.array(map(select_part, text.to_pylist(), separator.to_pylist(), number.to_pylist()), pa.string())


def _initcap(array: pa.Array) -> pa.Array:
    return map_distinct(array, lambda text: " ".join(word.capitalize() for word in text.split(" ")), STRING, STRING)


def _md5(array: pa.Array) -> pa.Array:
    return map_distinct(array, lambda data: hashlib.md5(data, usedforsecurity=False).hexdigest(), BINARY, STRING)


def _sha2(site: Site, values: Sequence[Compiled]) -> Compiled:
    bits = site.constant_of(site.cast(values[1], INT), "a number of bits")
    hash_function = {
        0: hashlib.sha256,
        224: hashlib.sha224,
        256: hashlib.sha256,
        384: hashlib.sha384,
        512: hashlib.sha512,
    }.get(bits)
    if hash_function is None:
        site.fail(f"sha2 takes 224, 256, 384 or 512 bits, found {bits}")
    value = site.cast(values[0], BINARY)
    return site.eager(
        STRING, [value], lambda array: map_distinct(array, lambda data: hash_function(data).hexdigest(), BINARY, STRING)
    )


FUNCTIONS: dict[str, Function] = {
    **dict.fromkeys(("upper", "ucase"), typed_function(STRING, _change_case(pc.ascii_upper, str.upper), STRING)),
    **dict.fromkeys(("lower", "lcase"), typed_function(STRING, _change_case(pc.ascii_lower, str.lower), STRING)),
    "initcap": typed_function(STRING, _initcap, STRING),
    "reverse": typed_function(STRING, pc.utf8_reverse, STRING),
    **dict.fromkeys(("length", "len", "char_length", "character_length"), function(_length, 1)),
    **dict.fromkeys(("concat", "||"), function(_concat, 0, ANY)),
    "concat_ws": function(_concat_ws, 1, ANY),
    **dict.fromkeys(("substring", "substr"), typed_function(STRING, _substring, STRING, INT, INT, optional=1)),
    "left": typed_function(STRING, _left, STRING, INT),
    "right": typed_function(STRING, _right, STRING, INT),
    **dict.fromkeys(("trim", "btrim"), _trim(pc.utf8_trim)),
    "ltrim": _trim(pc.utf8_ltrim),
    "rtrim": _trim(pc.utf8_rtrim),
    "lpad": _pad(at_left=True),
    "rpad": _pad(at_left=False),
    "replace": function(_replace, 2, 3),
    "regexp_replace": function(_regexp_replace, 3),
    "repeat": typed_function(STRING, _repeat, STRING, INT),
    "startswith": typed_function(BOOLEAN, _search(pc.starts_with, str.startswith, pa.bool_()), STRING, STRING),
    "endswith": typed_function(BOOLEAN, _search(pc.ends_with, str.endswith, pa.bool_()), STRING, STRING),
    "contains": typed_function(BOOLEAN, _search(pc.match_substring, lambda a, b: b in a, pa.bool_()), STRING, STRING),
    "instr": typed_function(INT, _instr, STRING, STRING),
    "locate": typed_function(INT, _locate, STRING, STRING),
    "split_part": typed_function(STRING, _split_part, STRING, STRING, INT),
    "md5": typed_function(STRING, _md5, BINARY),
    "sha2": function(_sha2, 2),
}

"""Files cut into splits of about equal size at row group offsets, for Spark's reader; URLs of files for Hadoop."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import quote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from floe.errors import UnsupportedFeature
from floe.plan.tasks import SplitSettings, adjusted_split_size, split_settings
from floe.spark.bridge.parquet_readers import FileParts
from floe.spark.read.native import constant_column
from floe.spec.properties import ADAPTIVE_SPLIT_SIZE
from floe.spec.types import Field
from floe.storage.access import check_allowed
from floe.storage.locations import Location, is_below, parse
from floe.storage.protocol import Storage
from floe.storage.wrappers import PrefixMap

_SAFE: Final = "/:@&=+$,;-_.!~*'()"
"""What may stand in a URL of Hadoop's beside letters and digits."""

_PLAIN: Final = r"^[A-Za-z0-9/:@&=+$,;_.!~*'()-]*$"
_RELATIVE: Final = r"/\.{0,2}(/|$)"
"""Names that are not there once a path is resolved."""
_ROOT: Final = r"^(?P<root>(?:[A-Za-z][A-Za-z0-9+.\-]*:(?://[^/]*)?)?)"
"""What a text begins with before its path; nothing, where that is a plain path."""


def splits_for(
    properties: Mapping[str, str], total: int, parallelism: int, given: Mapping[str, int] = MappingProxyType({})
) -> SplitSettings:
    """How files of so many bytes in all are read by tasks: as a table's properties say, or as is given.

    The size of parts becomes less where that keeps more executors busy, unless it is given.
    """
    settings = split_settings(properties, **given)
    if "target_size" in given or not ADAPTIVE_SPLIT_SIZE.read(properties):
        return settings
    size = adjusted_split_size(total, parallelism, settings.target_size)
    return replace(settings, target_size=even_turns(total, parallelism, size))


def even_turns(total: int, parallelism: int, size: int) -> int:
    """The size of parts which keeps all readers busy to the end: three parts take two readers as long as four.

    >>> even_turns(344, 2, 128), even_turns(512, 2, 128), even_turns(100, 2, 128)
    (86, 128, 128)
    """
    turns = -(-total // (size * parallelism))
    return size if turns <= 1 else -(-total // (turns * parallelism))


def file_parts(
    files: pa.Table,
    storage: Storage,
    constants: Sequence[Field],
    size: int,
    bits: Mapping[str, bytes] | None = None,
) -> FileParts:
    """The parts of all files of a plan's table, with what their rows all have; `bits` are the deleted ones."""
    _check_plain(files)
    urls = urls_of(storage, files["file_path"].combine_chunks())
    columns = [constant_column(files, field, bits) for field in constants]
    sizes = np.asarray(files["file_size_in_bytes"].to_numpy())
    big = np.flatnonzero(sizes > size)
    if not big.size:
        return FileParts(urls, np.zeros_like(sizes), sizes, sizes, columns)
    offsets = files["split_offsets"].take(pa.array(big)).to_pylist()
    cuts = [list(_cuts(length, places, size)) for length, places in zip(sizes[big].tolist(), offsets, strict=True)]
    counts = np.ones_like(sizes)
    counts[big] = [len(one) for one in cuts]
    origin = np.repeat(np.arange(len(sizes)), counts)
    begins, lengths = np.zeros_like(origin), sizes[origin]
    cut = np.isin(origin, big)
    found = np.array([place for one in cuts for place in one], np.int64)
    begins[cut], lengths[cut] = found[:, 0], found[:, 1] - found[:, 0]
    order = pa.array(origin)
    return FileParts(urls.take(order), begins, lengths, sizes[origin], [column.take(order) for column in columns])


def _check_plain(files: pa.Table) -> None:
    """Raise if a file is encrypted: Spark's reader would be told nothing of its key."""
    keys = files["key_metadata"]
    if keys.null_count < len(files):
        first = files["file_path"].filter(pc.is_valid(keys))[0].as_py()
        raise UnsupportedFeature("the file is encrypted, and encrypted tables cannot be read yet", file=first)


def _cuts(length: int, offsets: Sequence[int] | None, size: int) -> Iterator[tuple[int, int]]:
    """From where to where the parts of a file go."""
    inside = [place for place in offsets or () if 0 < place < length]
    known = inside == sorted(set(inside)) and len(inside) > 0
    begin = last = 0
    for place in [*(inside if known else range(size, length, size)), length]:
        if place - begin > size and last > begin:
            yield begin, last
            begin = last
        last = place
    yield begin, length


def urls_of(storage: Storage, paths: pa.StringArray) -> pa.Array:
    """The URLs of files, as Hadoop writes them.

    Nearly all files of a table are below one folder and have plain names, so that only the folder has to be looked at.
    Where writers spell locations differently (`file:/`, `file:///`), or files lie in several buckets, each scheme with
    its authority has a folder of its own: what texts begin with in common is a folder only after those.

    >>> from floe.storage.local import LocalStorage
    >>> urls_of(LocalStorage(), pa.array(["file:/wh/a", "file:///wh/b", "s3://b1/c", "s3://b2/d"])).to_pylist()
    ['file:/wh/a', 'file:/wh/b', 's3://b1/c', 's3://b2/d']
    """
    if not len(paths):
        return paths
    ends = pc.min_max(paths)
    first, last = ends["min"].as_py(), ends["max"].as_py()
    root = _root(first)
    if _root(last) != root:
        return _urls_by_root(storage, paths)
    shared = os.path.commonprefix([first, last])  # noqa: RUF071 (of texts is meant)
    folder = shared[: shared.rfind("/") + 1]
    names = pc.utf8_slice_codeunits(paths, max(0, len(folder) - 1))  # with the slash before them
    relative = pc.match_substring_regex(names, _RELATIVE)
    plain = pc.and_(pc.match_substring_regex(names, _PLAIN), pc.invert(relative))
    apart = _maps_below(storage, folder)
    check_allowed(storage, paths.to_pylist, lambda: () if apart or pc.any(relative).as_py() else _covers(folder, paths))
    if len(folder) <= len(root) or apart:
        plain = pa.array(np.zeros(len(paths), np.bool_))
    start = _url(storage, folder).removesuffix("/") if pc.any(plain).as_py() else ""
    found = pc.binary_join_element_wise(pa.scalar(start), names, pa.scalar(""))
    if pc.all(plain).as_py():
        return found
    others = [_url(storage, path) for path in paths.filter(pc.invert(plain)).to_pylist()]
    return pc.replace_with_mask(found, pc.invert(plain), pa.array(others, pa.string()))


def _urls_by_root(storage: Storage, paths: pa.StringArray) -> pa.Array:
    """The URLs of files of several stores, or of one that is spelled in several ways."""
    roots = pc.struct_field(pc.extract_regex(paths, _ROOT), "root")
    found = paths
    for root in pc.unique(roots):
        chosen = pc.equal(roots, root)
        found = pc.replace_with_mask(found, chosen, urls_of(storage, paths.filter(chosen)))
    return found


def _root(path: str) -> str:
    """Scheme and authority as they are spelled: what is before the path."""
    found = re.match(_ROOT, path)
    return found["root"] if found else ""


def _covers(folder: str, paths: pa.StringArray) -> Iterator[list[str]]:
    """The folder of all files, or, should it be too high, the folders in which they are."""
    if folder:
        yield [folder]
    above = pc.list_element(pc.split_pattern(paths, "/", max_splits=1, reverse=True), 0).unique().to_pylist()
    yield [one or "/" for one in above]


def _url(storage: Storage, location: str) -> str:
    return quote(hadoop_path(actual_location(storage, location)), safe=_SAFE)


def _maps_below(storage: Storage, folder: str) -> bool:
    """Whether some files below a folder may be recorded elsewhere in their own way."""
    return any(is_below(prefix, folder) for layer in _maps(storage) for prefix in layer.prefixes)


def _maps(storage: Storage) -> Iterator[PrefixMap]:
    layer: Any = storage
    while layer is not None:
        if isinstance(layer, PrefixMap):
            yield layer
        layer = getattr(layer, "storage", None)


def actual_location(storage: Storage, location: str) -> str:
    """Where a file is, if it is recorded elsewhere."""
    for layer in _maps(storage):
        location = layer.actual(location)
    return location


def hadoop_path(location: str) -> str:
    """A location as Hadoop spells it.

    >>> hadoop_path("/wh/t"), hadoop_path("file:///wh/t"), hadoop_path("s3://b/t")
    ('file:/wh/t', 'file:/wh/t', 's3://b/t')
    """
    found: Location = parse(location)
    return f"file:{found.path}" if found.scheme == "file" else location

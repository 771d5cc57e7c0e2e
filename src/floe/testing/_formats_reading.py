"""What every format model promises of reading: splits, filters, batches, and files that are not what they should be."""

from __future__ import annotations

from floe.errors import CorruptFile, InvalidInput, NoSuchColumn, NoSuchFile, UnsupportedFeature
from floe.formats.model import Feature
from floe.spec.expressions.dsl import col
from floe.spec.expressions.nodes import Expression
from floe.spec.manifests.entries import DataFile
from floe.spec.schemas.metadata_columns import POS
from floe.spec.schemas.schema import Schema
from floe.spec.types import DOUBLE, INT, LONG, STRING, Field, StructType
from floe.storage.memory import MemoryStorage
from floe.testing._formats_bench import FormatBench, Rows, columns, refused
from floe.testing._formats_storages import Counting, Turned

__all__ = ["ReadingPromises"]

_SCHEMA = columns(
    Field(1, "id", LONG, required=True),
    (2, "name", STRING),
    (3, "x", DOUBLE),
    (4, "s", StructType((Field(5, "n", INT), Field(6, "t", STRING)))),
)


def _row(n: int) -> dict[str, object]:
    return {
        "id": n,
        "name": None if n % 5 == 0 else f"name-{n % 100:03}",
        "x": float("nan") if n % 11 == 0 else n / 2,
        "s": None if n % 7 == 0 else {"n": n % 10, "t": str(n)},
    }


_ROWS: Rows = [_row(n) for n in range(3000)]
_SMALL_GROUPS = {"write__parquet__row_group_limit": "500", "write__orc__stripe_size_bytes": "8192"}


def _read_or_refuse(bench: FormatBench, schema: Schema, location: str) -> None:
    try:
        bench.read(schema, location)
    except (CorruptFile, UnsupportedFeature) as error:
        if location not in str(error):
            raise AssertionError(f"the error does not name the file: {error}") from error


def _file(bench: FormatBench) -> DataFile:
    return bench.write(_SCHEMA, _ROWS, **_SMALL_GROUPS)


class ReadingPromises:
    """Parts of files, filters, batches."""

    def test_splits(self, bench: FormatBench) -> None:
        """Splits: each row is in exactly one of those that cover the file."""
        file = _file(bench)
        size = file.file_size_in_bytes
        wanted = Schema((POS, *_SCHEMA.fields))
        everything = bench.read(wanted, file)
        if not bench.supports(Feature.SPLIT):
            bench.check(bench.rows(bench.reading(wanted, file).split(0, size)), everything)
            return
        for length in (size, size // 2 + 1, size // 7 + 1, 1000):
            found: Rows = []
            for start in range(0, size, length):
                found += bench.rows(bench.reading(wanted, file).split(start, length))
            bench.check(found, everything)
        bench.check(bench.rows(bench.reading(wanted, file).split(size, 1000)), [])

    def test_split_offsets(self, bench: FormatBench) -> None:
        """Split offsets cut the file where its parts begin."""
        file = _file(bench)
        if not bench.supports(Feature.SPLIT_OFFSETS):
            assert file.split_offsets is None or len(file.split_offsets) >= 1
            return
        offsets = file.split_offsets
        assert offsets is not None
        assert offsets == file.usable_split_offsets
        ends = (*offsets[1:], file.file_size_in_bytes)
        parts = [
            bench.rows(bench.reading(_SCHEMA, file).split(start, end - start))
            for start, end in zip(offsets, ends, strict=True)
        ]
        assert all(parts), "a part without rows"
        bench.check([row for part in parts for row in part], _ROWS)

    def test_filters(self, bench: FormatBench) -> None:
        """Filters leave exactly the rows that pass."""
        file = _file(bench)
        tests: list[tuple[Expression, list[int]]] = [
            (col("id") < 10, list(range(10))),
            (col("id") == 2999, [2999]),
            (col("id") > 5000, []),
            (col("name").is_null() & (col("id") < 20), [0, 5, 10, 15]),
            (col("name") == "name-001", [n for n in range(3000) if n % 100 == 1]),
            (col("name").starts_with("name-00") & (col("id") < 10), [1, 2, 3, 4, 6, 7, 8, 9]),
            (col("x").is_nan() & (col("id") < 30), [0, 11, 22]),
            ((col("x") > 1490.0) & ~col("x").is_nan(), [n for n in range(2981, 3000) if n % 11]),
            (col("id").is_in([7, 1007, 2500]), [7, 1007, 2500]),
            (col("s.n") == 3, [n for n in range(3000) if n % 10 == 3 and n % 7]),
            (col("s.n").is_null() & (col("id") < 15), [0, 7, 14]),
            ((col("id") < 3) | (col("id") >= 2998), [0, 1, 2, 2998, 2999]),
        ]
        for where, ids in tests:
            bench.check(bench.rows(bench.reading(_SCHEMA, file).filter(where)), [_ROWS[n] for n in ids])

    def test_filters_on_other_columns(self, bench: FormatBench) -> None:
        """Filters on columns, also fields of structs, that are not wanted."""
        file = _file(bench)
        wanted = columns((4, "s", StructType((Field(6, "t", STRING),))))
        where = (col("s.n") == 3) & (col("id") < 20)
        bench.check(
            bench.rows(bench.reading(wanted, file).filter(where, _SCHEMA)), [{"s": {"t": "3"}}, {"s": {"t": "13"}}]
        )

    def test_filters_skip(self, bench: FormatBench) -> None:
        """Filters skip parts of the file that cannot match."""
        if not bench.supports(Feature.FILTER):
            return
        storage = Counting(MemoryStorage())
        mine = FormatBench(bench.model, storage, bench.to_batch, bench.to_rows)
        rows = [{"id": n, "name": f"{n * 7919 % 10007:05}" * 40} for n in range(20_000)]
        schema = columns((1, "id", LONG), (2, "name", STRING))
        file = mine.write(
            schema,
            rows,
            write__parquet__row_group_limit="2000",
            write__orc__stripe_size_bytes="100000",
            write__parquet__compression_codec="uncompressed",
            write__orc__compression_codec="none",
        )
        storage.bytes = 0
        mine.check(mine.rows(mine.reading(schema, file).filter(col("id") == 19_999)), [rows[-1]])
        assert storage.bytes < file.file_size_in_bytes / 3, f"{storage.bytes} of {file.file_size_in_bytes} bytes read"

    def test_filters_and_evolution(self, bench: FormatBench) -> None:
        """Filters on renamed, promoted, missing and defaulted columns."""
        file = bench.write(columns((1, "a", INT)), [{"a": n} for n in range(10)])
        schema = columns((1, "b", LONG), Field(2, "d", INT, initial_default=5), (3, "e", STRING))
        row = {"b": 7, "d": 5, "e": None}
        for where, wanted in (
            (col("b") == 7, [row]),
            ((col("b") == 7) & (col("d") == 5), [row]),
            ((col("b") == 7) & (col("d") != 5), []),
            ((col("b") == 7) & col("e").is_null(), [row]),
            ((col("b") == 7) & col("e").is_not_null(), []),
        ):
            bench.check(bench.rows(bench.reading(schema, file).filter(where)), wanted)

    def test_case(self, bench: FormatBench) -> None:
        """Names in filters, with and without regard to case."""
        file = bench.write(columns((1, "Id", LONG)), [{"Id": 1}, {"Id": 2}])
        reading = bench.reading(columns((1, "Id", LONG)), file).filter(col("iD") == 2)
        bench.check(bench.rows(reading.case_sensitive(False)), [{"Id": 2}])
        with refused(NoSuchColumn):
            bench.rows(reading.case_sensitive(True))

    def test_batch_size(self, bench: FormatBench) -> None:
        """Batches have at most as many rows as asked for."""
        file = _file(bench)
        for size in (1, 7, 1000, 10_000):
            reading = bench.reading(columns((1, "id", LONG)), file).batch_size(size)
            if bench.model.object_model == "arrow":
                sizes = [batch.num_rows for batch in reading]
                assert sum(sizes) == 3000
                assert max(sizes) <= size
            bench.check(bench.rows(reading), [{"id": n} for n in range(3000)])
        with refused(InvalidInput):
            bench.rows(bench.reading(_SCHEMA, file).batch_size(0))

    def test_reuse(self, bench: FormatBench) -> None:
        """Containers used again when allowed, and only then."""
        file = bench.write(columns((1, "id", LONG)), [{"id": n} for n in range(10)])
        reading = bench.reading(columns((1, "id", LONG)), file).batch_size(5)
        apart = list(reading)
        assert len({id(one) for one in apart}) == len(apart)
        reused = list(reading.reuse())
        if bench.supports(Feature.REUSE):
            assert len({id(one) for one in reused}) == 1
        else:
            bench.check(bench.rows(reading.reuse()), bench.rows(reading))

    def test_lying_row_counts(self, bench: FormatBench) -> None:
        """A file with another number of rows than the manifest says is an error."""
        file = bench.write(columns((1, "id", LONG)), [{"id": n} for n in range(10)])
        reading = bench.reading(columns((1, "id", LONG)), file)
        bench.check(bench.rows(reading.facts(record_count=10)), [{"id": n} for n in range(10)])
        with refused(CorruptFile, naming=file.file_path):
            bench.rows(reading.facts(record_count=11))

    def test_broken_files(self, bench: FormatBench) -> None:
        """Files that are cut off or overwritten are errors that name the file, or right."""
        schema = columns((1, "id", LONG), (2, "name", STRING))
        rows = [{"id": n, "name": f"n{n}"} for n in range(300)]
        file = bench.write(schema, rows)
        data = bench.storage.read(file.file_path)
        broken = [data[: len(data) * n // 10] for n in range(10)]
        places = range(0, len(data), max(1, len(data) // 40))
        broken += [data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :] for place in places]
        for content in broken:
            location = bench.location()
            bench.storage.write(location, content)
            _read_or_refuse(bench, schema, location)

    def test_missing_files(self, bench: FormatBench) -> None:
        """A file that is not there is told as such."""
        with refused(NoSuchFile):
            bench.read(_SCHEMA, bench.location())

    def test_encrypted_files(self, bench: FormatBench) -> None:
        """Encrypted files go through the key metadata hook, and are refused without one."""
        schema, rows = columns((1, "id", LONG)), [{"id": n} for n in range(10)]
        location = bench.location()
        builder = bench.writing(schema, location).encryption(lambda storage, location: (Turned(storage), b"key"))
        file = bench.fill(builder, rows)
        assert file.key_metadata == b"key"
        reading = bench.reading(schema, file)
        bench.check(bench.rows(reading.key_metadata(b"key", lambda storage, location, key: Turned(storage))), rows)
        with refused(UnsupportedFeature, naming="encrypted"):
            bench.rows(reading.key_metadata(b"key", None))
        with refused(CorruptFile):
            bench.rows(reading)

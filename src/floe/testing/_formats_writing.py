"""What every format model promises of writing: files appear whole or not at all, and are described as they are."""

from __future__ import annotations

from floe.errors import FileAlreadyExists, InvalidInput, InvalidSchema, InvalidUpdate, InvalidValue, UnsupportedFeature
from floe.spec.expressions.dsl import col
from floe.spec.manifests.entries import FileContent
from floe.spec.partitioning.partition_spec import PartitionField, PartitionSpec
from floe.spec.partitioning.transforms import IDENTITY
from floe.spec.types import INT, LONG, STRING, Field, ListType, StructType
from floe.testing._formats_bench import FormatBench, columns, refused

__all__ = ["WritingPromises"]

_SCHEMA = columns((1, "id", LONG), (2, "name", STRING))
_ROWS = [{"id": 1, "name": "a"}, {"id": None, "name": "b"}]
_CODECS = {
    "parquet": ("uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4"),
    "orc": ("none", "zlib", "snappy", "zstd", "lz4"),
    "avro": ("uncompressed", "gzip", "snappy", "zstd"),
}


class WritingPromises:
    """Appenders and builders."""

    def test_overwriting(self, bench: FormatBench) -> None:
        """A file that is there is overwritten only when asked to."""
        file = bench.write(_SCHEMA, _ROWS)
        again = bench.writing(_SCHEMA, file.file_path)
        with refused(FileAlreadyExists):
            bench.fill(again, _ROWS[:1])
        bench.check(bench.read(_SCHEMA, file), _ROWS)
        bench.fill(again.overwrite(), _ROWS[:1])
        bench.check(bench.read(_SCHEMA, file), _ROWS[:1])

    def test_aborting(self, bench: FormatBench) -> None:
        """A file that is aborted, or whose writer raises, never appears."""
        assert bench.to_batch is not None
        for raising in (False, True):
            builder = bench.writing(_SCHEMA)
            try:
                with builder.build() as file:
                    file.write(bench.to_batch(_SCHEMA, _ROWS))
                    if raising:
                        raise KeyError("of the caller")
                    file.abort()
            except (KeyError, ValueError):
                pass
            assert not bench.storage.exists(builder.request.location)

    def test_not_there_until_closed(self, bench: FormatBench) -> None:
        """A file is not seen before it is closed; closing twice gives the same answer."""
        assert bench.to_batch is not None
        builder = bench.writing(_SCHEMA)
        file = builder.build()
        file.write(bench.to_batch(_SCHEMA, _ROWS))
        assert file.record_count == 2
        assert file.length >= 0
        assert not bench.storage.exists(builder.request.location)
        assert file.close() == file.close()
        file.abort()
        assert bench.storage.exists(builder.request.location)

    def test_empty_files(self, bench: FormatBench) -> None:
        """A file without rows."""
        file = bench.fill(bench.writing(_SCHEMA))
        assert file.record_count == 0
        bench.check(bench.read(_SCHEMA, file), [])
        bench.check(bench.rows(bench.reading(_SCHEMA, file).filter(col("id") > 1)), [])

    def test_many_writes(self, bench: FormatBench) -> None:
        """Many small writes make one file, which grows as it is written."""
        assert bench.to_batch is not None
        rows = [{"id": n, "name": f"{n * 7919}" * 20} for n in range(3000)]
        lengths = []
        with bench.writing(_SCHEMA).build() as file:
            for start in range(0, 3000, 100):
                file.write(bench.to_batch(_SCHEMA, rows[start : start + 100]))
                lengths.append(file.length)
        assert lengths == sorted(lengths)
        assert lengths[-1] > lengths[0]
        bench.check(bench.read(_SCHEMA, file.close()), rows)

    def test_write_defaults(self, bench: FormatBench) -> None:
        """Columns that are left out have their write default."""
        full = columns(
            (1, "id", LONG),
            Field(2, "name", STRING, required=True, write_default="none"),
            Field(3, "l", ListType(4, INT), write_default=[1, 2]),
            (5, "s", StructType((Field(6, "a", INT, write_default=7), Field(7, "b", INT)))),
        )
        part = columns((1, "id", LONG), (5, "s", StructType((Field(7, "b", INT),))))
        assert bench.to_batch is not None
        builder = bench.writing(full)
        with builder.build() as file:
            file.write(bench.to_batch(part, [{"id": 1, "s": {"b": 2}}, {"id": 2, "s": None}]))
        bench.check(
            bench.read(full, file.close()),
            [
                {"id": 1, "name": "none", "l": [1, 2], "s": {"a": 7, "b": 2}},
                {"id": 2, "name": "none", "l": [1, 2], "s": None},
            ],
        )

    def test_columns_that_do_not_fit(self, bench: FormatBench) -> None:
        """Missing required columns and columns too many are refused by name."""
        assert bench.to_batch is not None
        needed = columns((1, "id", LONG), Field(2, "name", STRING, required=True))
        for schema, given, rows in (
            (needed, columns((1, "id", LONG)), [{"id": 1}]),
            (columns((1, "id", LONG)), needed, [{"id": 1, "name": "a"}]),
        ):
            builder = bench.writing(schema)
            with refused(InvalidSchema, InvalidValue, naming="name"), builder.build() as file:
                file.write(bench.to_batch(given, rows))
            assert not bench.storage.exists(builder.request.location)

    def test_what_the_request_says(self, bench: FormatBench) -> None:
        """Partition, spec, sort order and key metadata are recorded."""
        spec = PartitionSpec((PartitionField((2,), 1000, "name", IDENTITY),), spec_id=3)
        builder = bench.writing(_SCHEMA).partition(spec, ("a",)).sort_order(5).key_metadata(b"key")
        file = bench.fill(builder, _ROWS[:1])
        assert (file.content, file.file_format) == (FileContent.DATA, bench.model.file_format)
        assert (file.spec_id, file.partition, file.sort_order_id, file.key_metadata) == (3, ("a",), 5, b"key")
        with refused(InvalidInput, naming="partition"):
            bench.writing(_SCHEMA).partition(spec, ()).build()
        with refused(InvalidInput):
            bench.writing(columns()).build()

    def test_properties(self, bench: FormatBench) -> None:
        """Properties of other formats and of others are ignored, metadata is taken."""
        builder = bench.writing(_SCHEMA).properties({"write.unheard-of": "1"}).properties({"mine": "2"})
        builder = builder.metadata({"a": "1"}).metadata({"b": "ü"})
        bench.check(bench.read(_SCHEMA, bench.fill(builder, _ROWS)), _ROWS)

    def test_compression(self, bench: FormatBench) -> None:
        """Compression codecs by property, each readable, with an effect."""
        name = bench.model.file_format
        rows = [{"id": n, "name": "again and again"} for n in range(5000)]
        sizes = {}
        for codec in _CODECS.get(name, ()):
            builder = bench.writing(_SCHEMA).properties({f"write.{name}.compression-codec": codec})
            file = bench.fill(builder, rows)
            bench.check(bench.read(_SCHEMA, file), rows)
            sizes[codec] = file.file_size_in_bytes
        if sizes:
            plain, *others = sizes.values()
            assert max(others) < plain, str(sizes)
            with refused(UnsupportedFeature, InvalidUpdate, naming="shrink"):
                bench.writing(_SCHEMA).properties({f"write.{name}.compression-codec": "shrink"}).build()

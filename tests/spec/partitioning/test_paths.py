"""Folders of partitions: Java's spelling, and reading the folders of Hive tables."""

import uuid
from decimal import Decimal
from urllib.parse import unquote_plus

import pytest
from hypothesis import given, strategies as st

from floe.errors import InvalidPartitionSpec, InvalidValue
from floe.spec import types as t
from floe.spec.partitioning.partition_paths import escape, parse_partition_path, partition_from_path, partition_path
from floe.spec.partitioning.partition_spec import UNPARTITIONED, PartitionField, PartitionSpec
from floe.spec.partitioning.transform_terms import build_spec
from floe.spec.partitioning.transforms import DAY, IDENTITY, VOID, UnknownTransform
from floe.spec.schemas.schema import Schema
from floe.spec.types import DecimalType, Field, FixedType
from helpers.corpus import table_names
from helpers.partitioned_files import partitioned_files
from helpers.value_strategies import TEXT

SCHEMA = Schema(
    (
        Field(1, "id", t.INT),
        Field(2, "data", t.STRING),
        Field(3, "ts", t.TIMESTAMP),
        Field(4, "raw", t.BINARY),
        Field(5, "amount", DecimalType(9, 2)),
    )
)


def identity_spec(*ids):
    return PartitionSpec(tuple(PartitionField((i,), 1000 + n, f"f{n}", IDENTITY) for n, i in enumerate(ids)))


def test_path_of_several_fields():
    spec = build_spec(SCHEMA, ["hour(ts)", "bucket(10, id)", "truncate(4, data)"])
    assert partition_path(spec, SCHEMA, (419686, 7, "a=b/")) == "ts_hour=2017-11-16-22/id_bucket=7/data_trunc=a%3Db%2F"


def test_path_of_null_is_the_word_null():
    spec = build_spec(SCHEMA, ["data", "day(ts)"])
    assert partition_path(spec, SCHEMA, (None, None)) == "data=null/ts_day=null"


def test_path_of_void_is_null():
    spec = PartitionSpec((PartitionField((2,), 1000, "data", VOID),))
    assert partition_path(spec, SCHEMA, (None,)) == "data=null"


def test_path_of_an_unpartitioned_table_is_empty():
    assert partition_path(UNPARTITIONED, SCHEMA, ()) == ""


def test_path_of_the_empty_string():
    assert partition_path(identity_spec(2), SCHEMA, ("",)) == "f0="


def test_names_are_escaped_too():
    spec = PartitionSpec((PartitionField((2,), 1000, "odd name/=é", IDENTITY),))
    assert partition_path(spec, SCHEMA, ("x",)) == "odd+name%2F%3D%C3%A9=x"


def test_bytes_are_in_base64_before_escaping():
    assert partition_path(identity_spec(4), SCHEMA, (b"\xff\xff",)) == "f0=%2F%2F8%3D"


def test_path_of_a_dropped_column():
    gone = Schema(())
    spec = PartitionSpec((PartitionField((3,), 1000, "d", DAY), PartitionField((3,), 1001, "t", IDENTITY)))
    assert partition_path(spec, gone, (17486, 0)) == "d=2017-11-16/t=0"
    assert partition_path(spec, gone, (17486, 0), [SCHEMA]) == "d=2017-11-16/t=1970-01-01T00%3A00%3A00"


def test_path_of_an_unknown_transform():
    spec = PartitionSpec((PartitionField((1,), 1000, "z", UnknownTransform("zorder")),))
    assert partition_path(spec, SCHEMA, (b"\x00",)) == "z=AA%3D%3D"


def test_number_of_values_must_be_that_of_the_fields():
    with pytest.raises(InvalidValue, match="has 1 values, found 2"):
        partition_path(identity_spec(1), SCHEMA, (1, 2))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("azAZ09.-*_", "azAZ09.-*_"),  # what Java's URLEncoder leaves as it is
        (" ", "+"),
        ("+", "%2B"),
        ("~", "%7E"),
        ("%", "%25"),
        ("a/b\\c:d", "a%2Fb%5Cc%3Ad"),
        ("😀", "%F0%9F%98%80"),
        ("\ud800", "%3F"),  # half a surrogate pair is no text; Java writes a question mark
        ("\x00\n", "%00%0A"),
    ],
)
def test_escaping_is_javas(text, expected):
    assert escape(text) == expected


@given(TEXT)
def test_escaped_text_is_one_safe_part_of_a_path(text):
    escaped = escape(text)
    assert unquote_plus(escaped) == text
    assert escaped.isascii()
    assert not set(escaped) & set("/=\\:?#&~ ")


@pytest.mark.parametrize("table", table_names("part_", "evo_partition", "v1_", "plan_day_bucket", "hist_overwrite"))
def test_paths_of_the_corpus(corpus_dir, table):
    for file in partitioned_files(corpus_dir, table):
        folders = "/".join(file.path.parts[file.path.parts.index("data") + 1 : -1])
        if "=" in folders:  # some tables have paths for object stores
            assert partition_path(file.spec, file.schema, file.partition) == folders


def test_hive_folders_of_the_corpus(corpus_dir):
    """Files that were added from a Hive table: the folders tell what the manifest says."""
    files = list(partitioned_files(corpus_dir, "imp_add_files_part"))
    hive = [file for file in files if "imported" in file.path.parts]
    assert hive
    for file in hive:
        folders = [part for part in file.path.parts if "=" in part]
        assert partition_from_path(file.spec, file.schema, "/".join(folders)) == file.partition


# reading --------------------------------------------------------------------------------------------------------


def test_hive_paths():
    assert parse_partition_path("a=1/b=x%3Dy%2Fz/c=__HIVE_DEFAULT_PARTITION__/") == {"a": "1", "b": "x=y/z", "c": None}
    assert parse_partition_path("a=b=c") == {"a": "b=c"}
    assert parse_partition_path("a=") == {"a": ""}
    assert parse_partition_path("a=1+1%20") == {"a": "1+1 "}
    assert parse_partition_path("a=null") == {"a": "null"}
    assert parse_partition_path("") == {}


@pytest.mark.parametrize("path", ["a", "=x", "a=1//b=2", "a=1/b", "a=1/a=2"])
def test_paths_that_are_not_of_partitions(path):
    with pytest.raises(InvalidPartitionSpec):
        parse_partition_path(path)


TEXTS = st.dictionaries(TEXT.filter(bool), TEXT.filter(lambda text: text != "null") | st.none(), max_size=4)


@given(TEXTS)
def test_own_paths_are_read_back(texts):
    spec = PartitionSpec(tuple(PartitionField((2,), 1000 + n, name, IDENTITY) for n, name in enumerate(texts)))
    path = partition_path(spec, SCHEMA, tuple(texts.values()))
    assert parse_partition_path(path, hive=False) == texts


@pytest.mark.parametrize(
    ("type_", "text", "value"),
    [
        (t.BOOLEAN, "true", True),
        (t.INT, "-7", -7),
        (t.LONG, "9223372036854775807", 2**63 - 1),
        (t.DOUBLE, "1.0E7", 1e7),
        (DecimalType(9, 2), "1.50", Decimal("1.50")),
        (t.DATE, "2017-11-16", 17486),
        (t.TIMESTAMP, "2017-11-16%2022%3A31%3A08", 1510871468000000),
        (t.STRING, "a%2Fb", "a/b"),
        (t.UUID, "00000000-0000-0000-0000-000000000001", uuid.UUID(int=1)),
        (t.BINARY, "ice", b"ice"),
        (FixedType(3), "ice", b"ice"),
        (t.INT, "__HIVE_DEFAULT_PARTITION__", None),
    ],
    ids=str,
)
def test_values_of_hive_folders(type_, text, value):
    schema = Schema((Field(1, "c", type_),))
    assert partition_from_path(build_spec(schema, ["c"]), schema, f"c={text}") == (value,)


def test_hive_folders_are_matched_by_name():
    schema = Schema((Field(1, "a", t.INT), Field(2, "b", t.INT)))
    assert partition_from_path(build_spec(schema, ["b", "a"]), schema, "a=1/b=2") == (2, 1)


def test_hive_folders_that_do_not_fit():
    with pytest.raises(InvalidPartitionSpec, match="are not the partition fields"):
        partition_from_path(identity_spec(1), SCHEMA, "x=1")
    with pytest.raises(InvalidPartitionSpec, match=r"the folder of partition field .* does not have its value"):
        partition_from_path(build_spec(SCHEMA, ["day(ts)"]), SCHEMA, "ts_day=2017-11-16")
    with pytest.raises(InvalidValue) as caught:
        partition_from_path(identity_spec(1), SCHEMA, "f0=x")
    assert caught.value.context["column"] == "f0"
    schema = Schema((Field(1, "c", FixedType(2)),))
    with pytest.raises(InvalidValue, match="has 3 bytes"):
        partition_from_path(build_spec(schema, ["c"]), schema, "c=ice")

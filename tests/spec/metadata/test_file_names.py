"""The names of metadata files (spec: File System Tables, Metastore Tables; Appendix F)."""

import pytest

from floe.errors import InvalidInput
from floe.spec.metadata.file_names import (
    MetadataFileName,
    catalog_metadata_file_name,
    file_system_metadata_file_name,
    parse_metadata_file_name,
    parse_version_hint,
)
from helpers.corpus import metadata_files, table_names

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


@pytest.mark.parametrize(
    ("name", "version", "uuid", "compressed"),
    [
        ("v0.metadata.json", 0, None, False),
        ("v12.metadata.json", 12, None, False),
        ("v12.gz.metadata.json", 12, None, True),
        ("v12.metadata.json.gz", 12, None, True),
        (f"00000-{UUID}.metadata.json", 0, UUID, False),
        (f"00012-{UUID}.gz.metadata.json", 12, UUID, True),
        (f"00012-{UUID}.metadata.json.gz", 12, UUID, True),
        (f"123456-{UUID.upper()}.metadata.json", 123456, UUID.upper(), False),
        (f"{UUID}.metadata.json", None, UUID, False),
        (f"s3://bucket/db/t/metadata/00012-{UUID}.metadata.json", 12, UUID, False),
        ("file:/floe-corpus/v3.metadata.json/metadata/v4.metadata.json", 4, None, False),
    ],
)
def test_names_of_metadata_files(name: str, version: int | None, uuid: str | None, compressed: bool) -> None:
    assert parse_metadata_file_name(name) == MetadataFileName(version, uuid, compressed)


@pytest.mark.parametrize(
    "name",
    [
        "",
        "metadata.json",
        ".metadata.json",
        "v.metadata.json",
        "v-1.metadata.json",
        "v1.json",
        "v1.metadata.json.bak",
        "v1.gz.metadata.json.gz",
        "v99999999999999.metadata.json",
        "v4294967296.metadata.json",
        "v1.metadata.json\n",
        "v١.metadata.json",
        "00001-not-a-uuid.metadata.json",
        "snap-1-1-abc.avro",
        "version-hint.text",
    ],
)
def test_other_names(name: str) -> None:
    assert parse_metadata_file_name(name) is None


def test_file_system_names() -> None:
    assert file_system_metadata_file_name(1) == "v1.metadata.json"
    assert file_system_metadata_file_name(7, compressed=True) == "v7.gz.metadata.json"
    with pytest.raises(InvalidInput):
        file_system_metadata_file_name(-1)


def test_catalog_names_have_five_digits_and_a_uuid() -> None:
    assert catalog_metadata_file_name(3, UUID) == f"00003-{UUID}.metadata.json"
    assert catalog_metadata_file_name(123456, UUID, compressed=True) == f"123456-{UUID}.gz.metadata.json"
    for wrong in ("x", f"../{UUID}", ""):
        with pytest.raises(InvalidInput, match="not a uuid"):
            catalog_metadata_file_name(3, wrong)


@pytest.mark.parametrize("compressed", [False, True])
def test_what_is_named_is_read_back(compressed: bool) -> None:
    for version in (0, 1, 99999, 100000, 2**31 - 1):
        name = parse_metadata_file_name(file_system_metadata_file_name(version, compressed=compressed))
        assert name == MetadataFileName(version, None, compressed)
        assert name.is_file_system
        name = parse_metadata_file_name(catalog_metadata_file_name(version, UUID, compressed=compressed))
        assert name == MetadataFileName(version, UUID, compressed)
        assert not name.is_file_system


@pytest.mark.parametrize(
    ("text", "version"),
    [(b"3", 3), (b"3\n", 3), (b" 12 ", 12), (b"0", 0), (b"", None), (b"v3", None), (b"-1", None), (b"3.0", None),
     (b"\xff\xfe", None), (b"9" * 11, None), (b"9" * 100_000, None), (b"4294967296", None)],
)  # fmt: skip
def test_version_hint(text: bytes, version: int | None) -> None:
    assert parse_version_hint(text) == version


@pytest.mark.parametrize("table", table_names(without=("view_",)))
def test_names_in_the_corpus(corpus_dir, table: str) -> None:
    for file in metadata_files(corpus_dir, table):
        name = parse_metadata_file_name(str(file))
        assert name is not None
        if table != "invalid_gzip_truncated":
            assert name.is_compressed == (file.read_bytes()[:2] == b"\x1f\x8b")
        assert name.is_file_system == file.name.startswith("v")

"""Manifests read together, and entries taken out of them: the same as each manifest, or entry, by itself."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from floe.avro import manifest_reader
from floe.avro.container import Limits
from floe.avro.manifest_reader import read_joined_manifests, read_manifest
from floe.avro.manifest_writer import write_manifest
from floe.errors import CorruptFile
from floe.spec.manifests.entries import ManifestFile
from floe.spec.partitioning.partition_spec import UNPARTITIONED
from floe.spec.schemas.schema import Schema
from floe.spec.types import INT, Field
from helpers.manifest_rules import without_metrics
from helpers.manifest_strategies import SCHEMA, SPEC, entries
from helpers.planned_tables import added, data_file, deleted, existing
from helpers.value_strategies import values_of

PARTITIONS = st.tuples(*(st.none() | values_of(field.type) for field in SPEC.partition_type(SCHEMA)))
MANIFESTS = st.lists(st.lists(entries(PARTITIONS), max_size=4), min_size=1, max_size=4)
FIRST_IDS = st.none() | st.integers(0, 10**6)


def described(number, data, first_row_id=None):
    return ManifestFile(
        f"m{number}", len(data), 0, sequence_number=number + 3, added_snapshot_id=number, first_row_id=first_row_id
    )


@settings(max_examples=60)
@given(MANIFESTS, st.randoms(use_true_random=False))
def test_joined_manifests_have_the_entries_of_each(manifests, chance):
    files = [write_manifest(manifest, SCHEMA, SPEC, format_version=2) for manifest in manifests]
    listed = [described(n, data) for n, data in enumerate(files)]
    types = {0: SPEC.partition_type(SCHEMA)}
    apart = [
        entry
        for data, manifest in zip(files, listed, strict=True)
        for entry in read_manifest(data, manifest, partition_type=types[0]).entries()
    ]
    joined = list(read_joined_manifests(files, listed, partition_types=types))
    assert [str(entry) for columns in joined for entry in columns.entries()] == [str(entry) for entry in apart]
    for columns in joined:
        rows = np.array(sorted(chance.sample(range(len(columns)), chance.randint(0, len(columns)))), np.int64)
        expected = columns.entries(rows)
        assert list(map(str, columns.take(rows).entries())) == list(map(str, expected))
        bare = columns.take(rows, metrics=False)
        assert list(map(str, bare.entries())) == [
            str(replace(entry, data_file=without_metrics(entry.data_file))) for entry in expected
        ]
        again = np.arange(0, len(rows), 2)
        assert list(map(str, bare.take(again).entries())) == [str(bare.entries()[n]) for n in again]


ROWS = Schema((Field(1, "a", INT),))


def written(*files, version=3):
    return write_manifest(files, ROWS, UNPARTITIONED, format_version=version)


@given(st.lists(st.tuples(st.lists(st.sampled_from("aed"), min_size=1, max_size=4), FIRST_IDS), min_size=1, max_size=4))
def test_row_ids_are_counted_in_each_manifest_for_itself(shapes):
    makers = {"a": added, "e": lambda file: existing(file, 1, 1), "d": lambda file: deleted(file, 1, 1)}
    files, listed = [], []
    for n, (letters, first) in enumerate(shapes):
        files.append(written(*(makers[c](data_file(f"{n}-{k}", record_count=k + 1)) for k, c in enumerate(letters))))
        listed.append(described(n, files[-1], first))
    apart = [
        entry.data_file.first_row_id
        for data, manifest in zip(files, listed, strict=True)
        for entry in read_manifest(data, manifest).entries()
    ]
    (joined,) = read_joined_manifests(files, listed)
    assert [entry.data_file.first_row_id for entry in joined.entries()] == apart
    last = np.array([len(joined) - 1])
    assert joined.take(last).entries()[0].data_file.first_row_id == apart[-1]


def test_manifests_of_another_kind_come_apart():
    files = [written(added(data_file("a"))), written(added(data_file("b")), version=2), written(added(data_file("c")))]
    listed = [described(n, data) for n, data in enumerate(files)]
    assert [len(columns) for columns in read_joined_manifests(files, listed)] == [1, 1, 1]
    listed[1] = replace(listed[0], partition_spec_id=7)
    assert [len(columns) for columns in read_joined_manifests([files[0], files[0], files[2]], listed)] == [1, 1, 1]


def test_errors_name_the_manifest_that_is_wrong():
    good, bad = written(added(data_file("a"))), written(existing(data_file("b"), 1, 1))
    listed = [described(0, good), described(1, bad), described(2, good)]
    broken = bad[:-40] + bytes(24) + bad[-16:]
    with pytest.raises(CorruptFile, match="m1"):
        list(read_joined_manifests([good, broken, good], listed))
    negative = written(existing(data_file("b", record_count=-1, file_format="avro"), 1, 1))
    (columns,) = read_joined_manifests([good, negative], [replace(manifest, first_row_id=0) for manifest in listed[:2]])
    with pytest.raises(CorruptFile, match=r"unknown row count.*manifest: m1"):
        _ = columns.first_row_id


@pytest.mark.parametrize("first_row_id", [None, 1000])
def test_large_manifests_come_in_pieces(monkeypatch, first_row_id):
    listed = [(deleted if n % 7 == 3 else existing)(data_file(f"f{n}", record_count=n), 1, 1) for n in range(1000)]
    data = write_manifest(listed, ROWS, UNPARTITIONED, format_version=3, block_bytes=1000)
    manifest = described(0, data, first_row_id)
    monkeypatch.setattr(manifest_reader, "_PIECE_BYTES", 2000)
    pieces = list(read_joined_manifests([data], [manifest]))
    assert len(pieces) > 3
    assert [e for columns in pieces for e in columns.entries()] == read_manifest(data, manifest).entries()
    small = written(added(data_file("a")))
    around = [described(n, manifest) for n, manifest in enumerate([small, data, small, small])]
    pieces_read = list(read_joined_manifests([small, data, small, small], around))
    assert [len(columns) for columns in pieces_read] == [1, *map(len, pieces), 2]


def test_pieces_together_are_limited(monkeypatch):
    data = write_manifest(
        [existing(data_file(f"f{n}"), 1, 1) for n in range(1000)],
        ROWS,
        UNPARTITIONED,
        format_version=3,
        block_bytes=1000,
    )
    monkeypatch.setattr(manifest_reader, "_PIECE_BYTES", 500)
    with pytest.raises(CorruptFile, match="m0"):
        list(read_joined_manifests([data], [described(0, data)], limits=Limits(total_bytes=10_000)))


def test_what_was_decoded_can_be_forgotten():
    data = written(*(existing(data_file(f"f{n}"), 1, 1) for n in range(3)))
    columns = read_manifest(data, described(0, data, 5))
    before = columns.entries()
    columns.forget()
    assert columns.entries() == before

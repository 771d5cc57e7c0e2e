"""Metadata files of catalogs that move a pointer: names, compression, limits, clean-up."""

import gzip
import json

import pytest

from floe.catalog.memory import MemoryCatalog
from floe.catalog.metadata_files import next_metadata_location, read_metadata, removed_from_log
from floe.commit.pointer import TableState
from floe.errors import FileTooLarge, InvalidMetadata, InvalidUpdate, StorageUnavailable
from floe.spec.json_reader import Limits
from floe.spec.metadata.file_names import parse_metadata_file_name
from floe.spec.metadata.table_metadata_json import serialize
from floe.storage.environment import SeededIds, deterministic_environment
from floe.storage.memory import MemoryStorage
from floe.testing.faults import Fault, FaultyStorage
from helpers.catalog_tables import change, create, load, names

ORDERS = ("db", "orders")


def catalog_over(storage: object | None = None) -> MemoryCatalog:
    environment = deterministic_environment()
    return MemoryCatalog(environment=environment, storage=storage or MemoryStorage(clock=environment.clock))  # type: ignore[arg-type]


def test_versions_count_from_zero_with_a_random_part() -> None:
    catalog = catalog_over()
    locations = [
        create(catalog, ORDERS).location,
        *(change(catalog.pointer(ORDERS), n=str(n)).location for n in (1, 2)),
    ]
    found = [parse_metadata_file_name(location) for location in locations]
    assert [name.version for name in found if name] == [0, 1, 2]
    assert len({name.uuid for name in found if name}) == 3
    assert all(location.startswith("memory:warehouse/db/orders/metadata/0000") for location in locations)


def test_a_version_of_a_file_system_table_counts_as_none() -> None:
    """As in Java: the table comes from elsewhere, and its numbers begin anew."""
    state = create(catalog_over(), ORDERS)
    base = TableState(state.metadata, "memory:warehouse/db/orders/metadata/v7.metadata.json")
    name = parse_metadata_file_name(next_metadata_location(base, state.metadata, SeededIds()))
    assert name is not None
    assert name.version == 0


def test_the_metadata_folder_can_be_elsewhere() -> None:
    catalog = catalog_over()
    state = create(catalog, ORDERS, {"write.metadata.path": "memory:elsewhere/orders/"})
    assert state.location.startswith("memory:elsewhere/orders/00000-")
    change(catalog.pointer(ORDERS), a="1")
    assert len(names(catalog.storage, "memory:elsewhere/orders")) == 2
    assert names(catalog.storage, "memory:warehouse") == []


@pytest.mark.parametrize("codec", ["gzip", "GZIP"])
def test_compression(codec: str) -> None:
    catalog = catalog_over()
    state = create(catalog, ORDERS, {"write.metadata.compression-codec": codec})
    assert state.location.endswith(".gz.metadata.json")
    content = catalog.storage.read(state.location)
    assert json.loads(gzip.decompress(content))["location"] == "memory:warehouse/db/orders"
    assert read_metadata(catalog.storage, state.location) == state.metadata


def test_a_codec_that_does_not_exist_is_refused() -> None:
    catalog = catalog_over()
    with pytest.raises(InvalidUpdate, match="'snappy'"):
        create(catalog, ORDERS, {"write.metadata.compression-codec": "snappy"})
    assert not catalog.table_exists(ORDERS)


def test_files_that_are_too_large_are_not_read() -> None:
    storage = MemoryStorage()
    storage.write("memory:plain.metadata.json", b" " * 1000)
    storage.write("memory:bomb.metadata.json", gzip.compress(b" " * 100_000))
    with pytest.raises(FileTooLarge):
        read_metadata(storage, "memory:plain.metadata.json", limits=Limits(max_bytes=999))
    with pytest.raises(InvalidMetadata, match=r"bomb\.metadata\.json"):
        read_metadata(storage, "memory:bomb.metadata.json", limits=Limits(max_bytes=999))


def test_logs_of_others_are_not_followed() -> None:
    """What leaves the log is deleted only if it is named like a metadata file, in the table's own folders."""
    catalog = catalog_over()
    wanted = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "1"}
    state = create(catalog, ORDERS, wanted)
    document = json.loads(serialize(state.metadata))
    own = "memory:warehouse/db/orders/metadata/00000-9c12d441-03fe-4693-9a96-a0705ddf69c1.metadata.json"
    foreign = [
        "memory:warehouse/db/victim/metadata/v1.metadata.json",
        "memory:warehouse/db/orders2/metadata/v1.metadata.json",
        "memory:warehouse/db/orders/data/a.parquet",
        "file:/etc/v1.metadata.json",
    ]
    document["metadata-log"] = [{"timestamp-ms": 1, "metadata-file": file} for file in [*foreign, own]]
    catalog.storage.write("memory:hostile.metadata.json", json.dumps(document).encode())
    base = read_metadata(catalog.storage, "memory:hostile.metadata.json")
    assert removed_from_log(base, state.metadata) == [own]


def test_a_file_whose_answer_was_lost_is_looked_at() -> None:
    """Its name is nobody else's: if the bytes are there, it is written; if not, nothing happened."""
    for fault, lands in ((Fault.LOST_ANSWER, True), (Fault.LOST_REQUEST, False)):
        files = MemoryStorage()
        create(catalog_over(files), ("db", "first"))
        catalog = catalog_over(FaultyStorage(files, fault, at=1, only={"write"}))
        if lands:
            state = create(catalog, ORDERS)
            assert load(catalog.pointer(ORDERS)).metadata == state.metadata
        else:
            with pytest.raises(StorageUnavailable):
                create(catalog, ORDERS)
            assert not catalog.table_exists(ORDERS)

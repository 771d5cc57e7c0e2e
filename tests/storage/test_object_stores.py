"""Object stores: the conformance suite over a real S3 server and obstore's own stores, lost answers, and secrets."""

import pickle
import traceback
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from floe.errors import (
    AccessDenied,
    FileAlreadyExists,
    FloeError,
    InvalidInput,
    InvalidLocation,
    OutcomeUnknown,
    StorageError,
    StorageUnavailable,
    UnsupportedFeature,
)
from floe.storage.environment import deterministic_environment
from floe.storage.object_stores import ObjectStorage
from floe.storage.protocol import Storage
from floe.storage.schemes import open_storage
from floe.storage.wrappers import Retrying
from floe.testing.storage import StorageConformance
from helpers.s3_server import SECRET_KEY, Proxy

stores = pytest.importorskip("obstore.store", reason="obstore is not installed: pip install 'floe[s3]'")


class TestS3(StorageConformance):
    @pytest.fixture
    def storage(self, s3_options: dict[str, Any]) -> Storage:
        return ObjectStorage("s3", s3_options)

    @pytest.fixture(params=["s3", "s3a"])
    def root(self, request: pytest.FixtureRequest) -> str:
        return f"{request.param}://bucket/{uuid.uuid4()}/wh"


class TestS3AsOpened(StorageConformance):
    """With retries around it, as `open_storage` gives it."""

    @pytest.fixture
    def storage(self, s3_options: dict[str, Any]) -> Storage:
        return open_storage("s3://", **s3_options)

    @pytest.fixture
    def root(self) -> str:
        return f"s3://bucket/{uuid.uuid4()}"


class TestMemoryStore(StorageConformance):
    @pytest.fixture
    def storage(self) -> Storage:
        store = stores.MemoryStore()
        return ObjectStorage("gs", connect=lambda location, retries: store, lists_in_order=False)

    @pytest.fixture
    def root(self) -> str:
        return "gs://bucket/wh"


class TestLocalStore(StorageConformance):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        store = stores.LocalStore(tmp_path, automatic_cleanup=True)
        return ObjectStorage("abfs", connect=lambda location, retries: store, lists_in_order=False)

    @pytest.fixture
    def root(self) -> str:
        return "abfss://c@acct.dfs.core.windows.net/wh"


def test_large_streams_go_in_parts(s3_options: dict[str, Any]) -> None:
    storage = ObjectStorage("s3", s3_options)
    location = f"s3://bucket/{uuid.uuid4()}"
    block = bytes(range(256)) * 4096
    with storage.open_write(location) as file:
        for _ in range(40):
            file.write(block)
    assert storage.stat(location).size == 40 * len(block)
    assert storage.read_range(location, 39 * len(block) - 2, 4) == b"\xfe\xff\x00\x01"


def test_several_buckets_through_one_storage(s3_options: dict[str, Any]) -> None:
    storage = ObjectStorage("s3", s3_options)
    storage.write(f"s3://bucket/{uuid.uuid4()}", b"")
    with pytest.raises(StorageError, match="no such bucket"):
        storage.create("s3://no-such-bucket/a", b"")
    assert not storage.delete_many(["s3://no-such-bucket/a"])[0].deleted
    with pytest.raises(StorageError, match="no such bucket"):
        list(storage.list("s3://no-such-bucket/"))


def test_deletes_beyond_one_batch(s3_options: dict[str, Any]) -> None:
    storage = ObjectStorage("s3", s3_options)
    root = f"s3://bucket/{uuid.uuid4()}"
    storage.write(f"{root}/1005", b"")
    outcomes = storage.delete_many(f"{root}/{number}" for number in range(1010))
    assert len(outcomes) == 1010
    assert all(outcome.deleted for outcome in outcomes)
    assert not storage.exists(f"{root}/1005")


@pytest.mark.parametrize("key", ["a//b", "/a", "a/../b", "./a", "a/.", "a\nb"])
def test_keys_that_the_library_would_change_are_refused(key: str) -> None:
    store = stores.MemoryStore()
    storage = ObjectStorage("s3", connect=lambda location, retries: store)
    for call in (storage.read, storage.stat, lambda location: storage.create(location, b"")):
        with pytest.raises(InvalidLocation):
            call(f"s3://bucket/{key}")
    storage.write("s3://bucket/good", b"")
    outcomes = storage.delete_many([f"s3://bucket/{key}", "s3://bucket/good"])
    assert [outcome.deleted for outcome in outcomes] == [False, True]
    assert list(storage.list("s3://bucket/")) == []


def test_locations_of_other_stores_are_refused() -> None:
    storage = ObjectStorage("s3", connect=lambda location, retries: stores.MemoryStore())
    with pytest.raises(InvalidLocation):
        storage.read("gs://bucket/a")


# Lost answers


@pytest.fixture
def proxy(s3_url: str) -> Iterator[Proxy]:
    proxy = Proxy(s3_url)
    yield proxy
    proxy.close()


@pytest.fixture
def behind_proxy(proxy: Proxy, s3_options: dict[str, Any]) -> ObjectStorage:
    return ObjectStorage("s3", {**s3_options, "s3.endpoint": proxy.url})


@pytest.mark.parametrize("fault", ["drop", "500 after"])
def test_a_create_whose_answer_is_lost_is_unknown_and_sent_once(
    fault: str, proxy: Proxy, behind_proxy: ObjectStorage
) -> None:
    location = f"s3://bucket/{uuid.uuid4()}/v1"
    proxy.faults = [fault]
    with pytest.raises(OutcomeUnknown):
        Retrying(behind_proxy, environment=deterministic_environment()).create(location, b"mine")
    assert proxy.puts == 1
    assert behind_proxy.read(location) == b"mine", "it had happened, and reading tells"


def test_a_create_that_the_server_did_not_take_is_unknown_too(proxy: Proxy, behind_proxy: ObjectStorage) -> None:
    location = f"s3://bucket/{uuid.uuid4()}/v1"
    proxy.faults = ["503 before"]
    with pytest.raises(OutcomeUnknown):
        behind_proxy.create(location, b"mine")
    assert proxy.puts == 1
    assert not behind_proxy.exists(location)


@pytest.mark.parametrize("fault", ["drop", "500 after", "503 before"])
def test_a_whole_write_is_repeated_and_finds_its_own_bytes(
    fault: str, proxy: Proxy, behind_proxy: ObjectStorage
) -> None:
    location = f"s3://bucket/{uuid.uuid4()}"
    proxy.faults = [fault]
    Retrying(behind_proxy, environment=deterministic_environment()).write(location, b"mine")
    assert proxy.puts == 2
    assert behind_proxy.read(location) == b"mine"


def test_the_other_writers_file_is_not_taken_for_ours(proxy: Proxy, behind_proxy: ObjectStorage) -> None:
    location = f"s3://bucket/{uuid.uuid4()}"
    behind_proxy.create(location, b"theirs")
    proxy.faults = ["503 before"]
    with pytest.raises(FileAlreadyExists):
        Retrying(behind_proxy, environment=deterministic_environment()).write(location, b"mine")
    assert behind_proxy.read(location) == b"theirs"


def test_a_store_that_does_not_answer(s3_options: dict[str, Any]) -> None:
    nobody = ObjectStorage("s3", {**s3_options, "s3.endpoint": "http://127.0.0.1:1"})
    with pytest.raises(StorageUnavailable):
        nobody.read("s3://bucket/a")
    with pytest.raises(OutcomeUnknown):
        nobody.create("s3://bucket/a", b"")
    assert not nobody.delete_many(["s3://bucket/a"])[0].deleted


def test_a_name_that_looks_like_an_answer_is_not_taken_for_one(s3_options: dict[str, Any]) -> None:
    nobody = ObjectStorage("s3", {**s3_options, "s3.endpoint": "http://127.0.0.1:1"})
    for name in ("status code: 404", "status code: 416", "<Code>NoSuchBucket</Code>", "StartTooLarge {"):
        with pytest.raises(StorageUnavailable):
            nobody.read_range(f"s3://bucket/{name}", 0, 10)
        with pytest.raises(OutcomeUnknown):
            nobody.create(f"s3://bucket/{name}", b"")


# Stores without conditional writes


def test_committing_is_refused_without_conditional_writes(s3_options: dict[str, Any]) -> None:
    storage = ObjectStorage("s3", {**s3_options, "conditional_put": "disabled"})
    assert not storage.creates_exclusively
    location = f"s3://bucket/{uuid.uuid4()}"
    with pytest.raises(UnsupportedFeature, match="If-None-Match"):
        storage.create(location, b"")
    storage.write(location, b"data files can be written")
    with pytest.raises(FileAlreadyExists):
        storage.write(location, b"again")


# Options and secrets


CANARY = "canary-5f3a"


def everything_said(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)) + repr(error) + repr(error.__dict__) + repr(error.__context__)


def test_secrets_are_never_shown(s3_url: str, s3_options: dict[str, Any]) -> None:
    wrong = ObjectStorage("s3", {**s3_options, "s3.secret-access-key": CANARY, "s3.session-token": CANARY})
    assert CANARY not in repr(wrong) + str(wrong)
    assert SECRET_KEY not in repr(ObjectStorage("s3", s3_options))
    for call in (
        lambda: wrong.read("s3://bucket/a"),
        lambda: wrong.create("s3://bucket/a", b""),
        lambda: list(wrong.list("s3://bucket/a")),
        lambda: wrong.stat("s3://bucket/a"),
    ):
        with pytest.raises(FloeError) as caught:
            call()
        assert CANARY not in everything_said(caught.value)
    with pytest.raises(AccessDenied, match="InvalidToken"):
        wrong.read("s3://bucket/a")
    with pytest.raises(AccessDenied, match="403"):
        ObjectStorage("s3", {**s3_options, "s3.secret-access-key": CANARY}).read("s3://bucket/a")


@pytest.mark.parametrize(
    ("scheme", "location", "options"),
    [
        ("s3", "s3://bucket/a", {"no_such_option": CANARY}),
        ("gs", "gs://bucket/a", {"service_account_key": CANARY}),
        ("abfs", "abfss://c@acct.dfs.core.windows.net/a", {"account_key": f"not base64 {CANARY}"}),
    ],
)
def test_wrong_options_are_told_without_their_values(scheme: str, location: str, options: dict[str, Any]) -> None:
    storage = ObjectStorage(scheme, options)
    with pytest.raises(InvalidInput) as caught:
        storage.read(location)
    text = everything_said(caught.value)
    assert next(iter(options)) in text
    assert CANARY not in text


def test_options_of_iceberg_that_are_not_known_are_told() -> None:
    storage = ObjectStorage("s3", {"s3.acess-key-id": CANARY})
    with pytest.raises(InvalidInput, match=r"s3\.acess-key-id.*s3\.access-key-id") as caught:
        storage.read("s3://bucket/a")
    assert CANARY not in everything_said(caught.value)


@pytest.mark.parametrize("option", ["s3.access-key-id", "s3.secret-access-key"])
def test_a_deletion_that_the_store_refuses_is_not_taken_for_done(s3_options: dict[str, Any], option: str) -> None:
    """This server answers 404 to users that it does not know, which is not the 404 of a missing file."""
    location = f"s3://bucket/{uuid.uuid4()}"
    ObjectStorage("s3", s3_options).write(location, b"")
    (outcome,) = ObjectStorage("s3", {**s3_options, option: "wrong"}).delete_many([location])
    assert not outcome.deleted
    assert ObjectStorage("s3", s3_options).exists(location)


def test_azure_and_google_stores_open_without_a_network() -> None:
    azure = ObjectStorage("abfs", {"adls.sas-token.acct.dfs.core.windows.net": f"sv=1&sig={CANARY}"})
    google = ObjectStorage("gs", {"gcs.oauth2.token": CANARY})
    for storage, location in ((azure, "abfss://c@acct.dfs.core.windows.net/wh/a"), (google, "gs://bucket/wh/a")):
        storage.make_folder(location)
        assert CANARY not in repr(storage)
        assert CANARY not in repr(storage._bucket(storage._parse(location)))


def test_a_storage_goes_to_other_processes(s3_options: dict[str, Any]) -> None:
    storage = open_storage("s3://", **s3_options)
    location = f"s3://bucket/{uuid.uuid4()}"
    storage.write(location, b"abc")  # so that a connection is open
    again = pickle.loads(pickle.dumps(storage))
    assert again.read(location) == b"abc"
    assert repr(again) == repr(storage)

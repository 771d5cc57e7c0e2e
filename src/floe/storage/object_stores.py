"""Object stores (S3, Google Cloud Storage, Azure) through obstore.

- `create` is one conditional request (`If-None-Match: *`, or the store's own form of it), sent once: the library's own
  repeating is switched off for it, because a repeated request finds the file of the first and takes it for somebody
  else's. An answer that did not come, or that says the server failed, is `OutcomeUnknown`.
- Streams are collected in memory (larger ones in a temporary file) and sent when closed, in parallel parts. They get
  names that nobody else uses; that the name is free is looked up, not part of the request.
- Keys are sent to the letter. Those with empty names (`a//b`), `.`, `..` or control characters cannot be addressed
  through the library, and are refused.
- Messages tell the store's status and error code, never the rest of its answer, which can repeat credentials.
"""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeVar

from floe.errors import (
    AccessDenied,
    FileAlreadyExists,
    FileTooLarge,
    FloeError,
    InvalidInput,
    InvalidLocation,
    NoSuchFile,
    OutcomeUnknown,
    StorageError,
    StorageUnavailable,
    UnsupportedFeature,
)
from floe.storage.locations import Location, parse
from floe.storage.object_options import ObjectOptions, parse_options, shown_options
from floe.storage.optional_libraries import load_library
from floe.storage.protocol import Data, Deletion, FileInfo, FileWriter
from floe.storage.range_checks import check_range
from floe.storage.range_files import open_ranges
from floe.storage.system_errors import translating

__all__ = ["OBJECT_SCHEMES", "ObjectStorage"]

T = TypeVar("T")

OBJECT_SCHEMES = {"s3": "floe[s3]", "gs": "floe[gcs]", "abfs": "floe[azure]"}
"""The canonical schemes, and what to install for each."""

_BUFFER_BYTES = 32 * 1024 * 1024
_DELETE_BATCH = 1000
_LIST_CHUNK = 1000
_UPLOAD_RETRIES = 5
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z.]{1,64})</Code>")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_BEHIND_THE_END = "StartTooLarge {"  # what the library says before it asks the store
_NO_BUCKET_CODES = frozenset({"NoSuchBucket", "ContainerNotFound", "FilesystemNotFound"})
# Only these mean that there is no file (None: answers without a body); servers use 404 for other things too, and
# taking those for a missing file would report a deletion that did not happen.
_NO_FILE_CODES = frozenset({None, "NoSuchKey", "BlobNotFound", "PathNotFound", "ResourceNotFound"})
_DENIED_CODES = frozenset({"ExpiredToken", "InvalidToken", "TokenRefreshRequired"})  # S3 says 400 with these

Connect = Callable[[Location, int], Any]
"""Opens the store of a location's bucket, with so many repetitions of a failed request."""


@dataclass(frozen=True, slots=True)
class _Bucket:
    once: Any
    """Sends each request once."""
    patient: Any
    """Repeats requests that may be repeated: for uploads in parts, where one of many fails easily."""


def _reopened(scheme: str, options: Mapping[str, Any], connect: Connect | None, lists_in_order: bool) -> ObjectStorage:
    """A storage in another process: it opens its buckets itself."""
    return ObjectStorage(scheme, options, connect=connect, lists_in_order=lists_in_order)


class ObjectStorage:
    """The objects of all buckets of one kind of store, opened with the same options.

    `connect` replaces the opening of buckets (for other stores of the library); `lists_in_order=False` sorts listings
    of stores that do not.
    """

    def __init__(
        self,
        scheme: str,
        options: Mapping[str, Any] | None = None,
        *,
        connect: Connect | None = None,
        lists_in_order: bool = True,
    ) -> None:
        self.scheme = scheme
        self._options = dict(options or {})
        self._obstore = load_library("obstore", needed_by=f"{scheme}://", install=OBJECT_SCHEMES.get(scheme, "obstore"))
        self._errors = load_library("obstore.exceptions", needed_by=f"{scheme}://", install="obstore")
        self._given_connect = connect
        self._connect = connect or self._open_bucket
        self._lists_in_order = lists_in_order
        self._buckets: dict[str, _Bucket] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.scheme, self._options, self._given_connect, self._lists_in_order)

    def __repr__(self) -> str:
        return f"ObjectStorage({self.scheme}://; {shown_options(self._options) or 'options of the environment'})"

    @property
    def creates_exclusively(self) -> bool:
        """Unless conditional requests are switched off in the options."""
        return str(self._options.get("conditional_put", "")).lower() != "disabled"

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """The whole object; its size is known before its bytes are taken."""

        def get(store: Any, key: str) -> bytes:
            result = self._obstore.get(store, key)
            size = result.meta["size"]
            if max_bytes is not None and size > max_bytes:
                raise FileTooLarge(f"the file has {size} bytes, and {max_bytes} are allowed", location=location)
            return bytes(result.bytes())

        return self._on_file(location, get)

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """A part of the object, shorter where it ends."""
        check_range(location, offset, length)
        if length == 0:
            self.stat(location)
            return b""

        def get_range(store: Any, key: str) -> bytes:
            return bytes(self._obstore.get_range(store, key, start=offset, length=length))

        try:
            return self._on_file(location, get_range)
        except _BehindTheEnd:
            return b""

    def open_read(self, location: str) -> BinaryIO:
        """The object, read in ranges."""
        return open_ranges(self, location)

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """A stream that is sent when closed."""
        self._parse_file(location)
        return _SpooledWriter(self, location, overwrite)

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """A whole object; without `overwrite` by a conditional request, where the store has them."""
        if overwrite or not self.creates_exclusively:
            self._upload(location, bytes(data), overwrite=overwrite)
        else:
            self.create(location, data)

    def create(self, location: str, data: Data) -> None:
        """A new object, by one conditional request."""
        if not self.creates_exclusively:
            raise _not_exclusive(location)

        def put(store: Any, key: str) -> None:
            self._obstore.put(store, key, bytes(data), mode="create", use_multipart=False)

        self._on_file(location, put, writing=True)

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Deletes in batches where the store can; a batch that fails is taken apart to tell each outcome."""
        asked = list(locations)
        outcomes: dict[str, Deletion] = {}
        batches: dict[str, list[str]] = {}
        for location in dict.fromkeys(asked):
            try:
                batches.setdefault(self._parse_file(location).authority, []).append(location)
            except FloeError as error:
                failure = error if isinstance(error, StorageError) else StorageError(error.message, location=location)
                outcomes[location] = Deletion(location, failure)
        for batch in batches.values():
            for start in range(0, len(batch), _DELETE_BATCH):
                outcomes.update((d.location, d) for d in self._delete_batch(batch[start : start + _DELETE_BATCH]))
        return [outcomes[location] for location in asked]

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """The objects below a folder, page by page, in the store's order (which is path order)."""
        found = self._listed(self._parse(prefix))
        return found if self._lists_in_order else iter(sorted(found, key=lambda info: info.location))

    def folders(self, prefix: str) -> Iterator[str]:
        """The common prefixes below a folder."""
        location = self._parse(prefix)
        store, folder = self._bucket(location).once, location.path.removesuffix("/")
        found = self._guarded(prefix, lambda: self._obstore.list_with_delimiter(store, folder or None))
        return iter(sorted(name.rstrip("/").rpartition("/")[2] for name in found["common_prefixes"]))

    def make_folder(self, location: str) -> None:
        """Does nothing: folders are parts of keys."""
        self._parse(location)

    def remove_folder(self, location: str) -> None:
        """Refuses if there are objects below."""
        if next(self._listed(self._parse(location)), None) is not None:
            raise StorageError("the folder is not empty", location=location)

    def stat(self, location: str) -> FileInfo:
        """The object's size and time."""
        return _info(location, self._on_file(location, self._obstore.head))

    def exists(self, location: str) -> bool:
        """Whether there is an object."""
        try:
            self.stat(location)
        except NoSuchFile:
            return False
        return True

    def _listed(self, location: Location) -> Iterator[FileInfo]:
        store, folder = self._bucket(location).once, location.folder

        def start() -> Iterator[Any]:
            return iter(self._obstore.list(store, folder.removesuffix("/") or None, chunk_size=_LIST_CHUNK))

        pages = self._guarded(location.text, start)
        while page := self._guarded(location.text, lambda: next(pages, None)):
            for meta in page:
                if meta["path"].startswith(folder):
                    yield _info(location.spelled(meta["path"]), meta)

    def _upload(self, location: str, content: Any, *, overwrite: bool) -> None:
        """Sends an object of any size, in parts if it is large; parts that fail are repeated."""
        if not overwrite and self.exists(location):
            raise _taken(location)
        parsed = self._parse_file(location)
        store = self._bucket(parsed).patient
        self._guarded(location, lambda: self._obstore.put(store, parsed.path, content, mode="overwrite"), writing=True)

    def _delete_batch(self, batch: Sequence[str]) -> Sequence[Deletion]:
        locations = [self._parse_file(location) for location in batch]
        store = self._bucket(locations[0]).once
        try:
            self._guarded(batch[0], lambda: self._obstore.delete(store, [location.path for location in locations]))
        except FloeError:
            return [Deletion(location, self._delete_one(location)) for location in batch]
        return [Deletion(location) for location in batch]

    def _delete_one(self, location: str) -> StorageError | None:
        try:
            self._on_file(location, lambda store, key: self._obstore.delete(store, [key]))
        except NoSuchFile:
            return None
        except FloeError as error:
            return error if isinstance(error, StorageError) else StorageError(error.message, location=location)
        return None

    def _parse(self, location: str) -> Location:
        parsed = parse(location)
        if parsed.scheme != self.scheme:
            raise InvalidLocation(f"not a location of {self.scheme}://", location=location)
        return parsed

    def _parse_file(self, location: str) -> Location:
        parsed = self._parse(location)
        names = parsed.path.split("/")
        if not parsed.path or names[-1] == "":
            raise NoSuchFile("a folder is not a file", location=location)
        if not {"", ".", ".."}.isdisjoint(names) or _CONTROL.search(parsed.path):
            raise InvalidLocation(
                "a key with an empty name, `.`, `..` or control characters cannot be used with this store",
                location=location,
            )
        return parsed

    def _bucket(self, location: Location) -> _Bucket:
        with self._lock:
            bucket = self._buckets.get(location.authority)
            if bucket is None:
                bucket = _Bucket(self._connect(location, 0), self._connect(location, _UPLOAD_RETRIES))
                self._buckets[location.authority] = bucket
            return bucket

    def _open_bucket(self, location: Location, retries: int) -> Any:
        container, _, host = location.authority.partition("@")
        account = host.partition(".")[0] or None
        options = parse_options(self.scheme, self._options, account=account)
        config = dict(options.config)
        if account is not None:
            config.setdefault("account_name", account)
        stores = load_library("obstore.store", needed_by=f"{self.scheme}://", install="obstore")
        kind = {"s3": stores.S3Store, "gs": stores.GCSStore, "abfs": stores.AzureStore}[self.scheme]
        try:
            return kind(
                container,
                config=config,
                client_options=dict(options.client) or None,
                retry_config={"max_retries": retries},
                **_credentials(options),
            )
        except self._errors.UnknownConfigurationKeyError as error:
            names = [name for name in config if name in str(error)]
        except (self._errors.BaseError, ValueError, TypeError):
            names = []
        # Outside the handler: what the library says can hold what it was given, and must not be printed with ours.
        raise InvalidInput(
            f"{self.scheme}:// cannot be opened with these options"
            + (f"; it does not know {', '.join(names)}" if names else ""),
            options=shown_options(self._options) or "none",
        )

    def _on_file(self, location: str, action: Callable[[Any, str], T], *, writing: bool = False) -> T:
        """Makes a call of the library for an object, with the store that sends requests once."""
        parsed = self._parse_file(location)
        store = self._bucket(parsed).once
        return self._guarded(location, lambda: action(store, parsed.path), writing=writing)

    def _guarded(self, location: str, action: Callable[[], T], *, writing: bool = False) -> T:
        """Makes a call of the library, and tells its errors in our words only."""
        try:
            return action()
        except (self._errors.BaseError, OSError, ValueError, NotImplementedError) as error:
            failure = self._translated(error, location, writing)
        raise failure  # outside the handler, so that the library's text is not chained to it

    def _translated(self, error: Exception, location: str, writing: bool) -> FloeError:
        text = _said_by_the_store(str(error), parse(location).path)
        status = int(found[1]) if (found := _STATUS.search(text)) else None
        code = found[1] if (found := _CODE.search(text)) else None
        kinds = self._errors
        answer = f"the store answered {status or 'with an error'}{f' ({code})' if code else ''}"
        if isinstance(error, kinds.AlreadyExistsError):
            return _taken(location)
        if isinstance(error, NotImplementedError | kinds.NotSupportedError):
            return _not_exclusive(location)
        missing = isinstance(error, FileNotFoundError) or status == 404
        if code in _NO_BUCKET_CODES or (missing and writing and code is None):
            return StorageError("no such bucket", location=location)
        if missing and code in _NO_FILE_CODES:
            return NoSuchFile("no such file", location=location)
        denied = isinstance(error, kinds.PermissionDeniedError | kinds.UnauthenticatedError)
        if denied or status in (401, 403) or code in _DENIED_CODES:
            return AccessDenied(answer, hint="check the credentials and their rights", location=location)
        if status == 416 or _BEHIND_THE_END in text:
            return _BehindTheEnd("the file ends before that", location=location)
        if isinstance(error, ValueError | kinds.InvalidPathError):
            return InvalidLocation("a key that cannot be used with this store", location=location)
        if status == 429 or (not writing and _is_transient(status)):
            return StorageUnavailable(answer if status else "the store did not answer", location=location)
        if not _is_transient(status):
            return StorageError(answer, location=location)
        return OutcomeUnknown(
            f"the file may have been written or not: {answer if status else 'the store did not answer'}",
            hint="read it to find out",
            location=location,
        )


class _BehindTheEnd(StorageError):
    """A range that starts where the file has ended."""


class _SpooledWriter(FileWriter):
    """Collects the bytes and sends them when closed."""

    def __init__(self, storage: ObjectStorage, location: str, overwrite: bool) -> None:
        self._buffer = tempfile.SpooledTemporaryFile(max_size=_BUFFER_BYTES)  # noqa: SIM115
        self._storage, self._overwrite = storage, overwrite
        super().__init__(location)

    def _append(self, data: Data) -> None:
        with translating(self.location):
            self._buffer.write(data)

    def _publish(self) -> None:
        try:
            self._buffer.seek(0)
            self._storage._upload(self.location, self._buffer, overwrite=self._overwrite)
        finally:
            self._discard()

    def _discard(self) -> None:
        self._buffer.close()


def _said_by_the_store(text: str, path: str) -> str:
    """An error's text without the file's name, if that was chosen to look like a store's answer."""
    looks_like_one = _STATUS.search(path) or _CODE.search(path) or _BEHIND_THE_END in path
    return text.replace(path, "") if looks_like_one else text


def _is_transient(status: int | None) -> bool:
    """Whether the store may answer otherwise next time, or gave no answer; after a write nobody knows the outcome."""
    return status is None or status >= 500 or status in (408, 425, 429)


def _credentials(options: ObjectOptions) -> dict[str, Any]:
    """The library takes a bearer token of Google's only from a function."""
    if options.token is None:
        return {}
    credential = {"token": options.token, "expires_at": None}
    return {"credential_provider": lambda: credential}


def _info(location: str, meta: Mapping[str, Any]) -> FileInfo:
    return FileInfo(location, int(meta["size"]), int(meta["last_modified"].timestamp() * 1000))


def _taken(location: str) -> FileAlreadyExists:
    return FileAlreadyExists("there is a file of that name already", location=location)


def _not_exclusive(location: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        "this store cannot create a file only if there is none, so nothing can be committed by creating files",
        hint="enable conditional writes (If-None-Match), or use a catalog in a database",
        location=location,
    )

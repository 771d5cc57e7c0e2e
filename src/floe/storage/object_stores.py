"""Object stores (S3, Google Cloud Storage, Azure) through obstore.

- `create` is one conditional request (`If-None-Match: *`, or the store's equivalent), sent once: the library's retries
  are switched off for it, because a retried request finds the object of the first and takes it for another writer's. A
  missing answer, or one that says that the server failed, is `OutcomeUnknown`.
- Streams are collected in memory (larger ones in a temporary file) and uploaded when closed, in parallel parts. Writers
  use unique names; that the name is free is checked before, not as part of the request.
- Keys are sent unchanged. Those with empty names (`a//b`), `.`, `..` or control characters cannot be addressed through
  the library, and are an error.
- Error messages have the store's status and error code, never the text of its answer, which can repeat credentials.

Options have the names of Iceberg's catalogs (`s3.access-key-id`) or those of obstore (`access_key_id`, `region`,
`endpoint`, …). Everything else comes from the environment variables that the stores' own tools use. Values are secrets
unless listed as public. An unknown property of this store is an error (it is usually a misspelt one); properties of
other stores are ignored, since one set of options may serve several stores.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeVar

from floe.errors import (
    AccessDenied,
    FloeError,
    InvalidInput,
    InvalidLocation,
    NoSuchFile,
    OutcomeUnknown,
    StorageError,
    StorageUnavailable,
    UnsupportedFeature,
)
from floe.plugins import load_library
from floe.storage.file_objects import SpooledWriter, open_ranges
from floe.storage.locations import Location, parse
from floe.storage.protocol import (
    Data,
    Deletion,
    FileInfo,
    FileWriter,
    Storage,
    check_range,
    check_size,
    file_exists_error,
)
from floe.storage.wrappers import Retrying

# options -------------------------------------------------------------------------------------------------------------

_PREFIXES = {"s3": ("s3.", "client."), "gs": ("gcs.",), "abfs": ("adls.",)}
_ALL_PREFIXES = tuple(prefix for prefixes in _PREFIXES.values() for prefix in prefixes)
_OBSTORE_NAMES = {
    "s3": {
        "s3.endpoint": "endpoint",
        "s3.region": "region",
        "client.region": "region",
        "s3.access-key-id": "access_key_id",
        "s3.secret-access-key": "secret_access_key",
        "s3.session-token": "session_token",
        "s3.role-arn": "role_arn",
        "s3.role-session-name": "role_session_name",
        "s3.sse.type": "server_side_encryption",
    },
    "gs": {
        "gcs.service-account-key": "service_account_key",
        "gcs.no-auth": "skip_signature",
    },
    "abfs": {
        "adls.account-name": "account_name",
        "adls.account-key": "account_key",
        "adls.auth.shared-key.account.name": "account_name",
        "adls.auth.shared-key.account.key": "account_key",
        "adls.sas-token": "sas_token",
        "adls.tenant-id": "tenant_id",
        "adls.client-id": "client_id",
        "adls.client-secret": "client_secret",
        "adls.token": "token",
    },
}
_PATH_STYLE = "s3.path-style-access"  # the opposite of obstore's option
_GOOGLE_TOKEN = "gcs.oauth2.token"  # obstore takes it only from a function
_SAS_OF_ACCOUNT = "adls.sas-token."  # followed by the account, or its host
_SPECIAL = {"s3": (_PATH_STYLE,), "gs": (_GOOGLE_TOKEN,), "abfs": ()}
_CLIENT = frozenset({"allow_http", "timeout", "connect_timeout"})
_PUBLIC = _CLIENT | {
    "account_name",
    "bucket",
    "conditional_put",
    "endpoint",
    "region",
    "request_payer",
    "server_side_encryption",
    "skip_signature",
    "virtual_hosted_style_request",
    _PATH_STYLE,
}


@dataclass(frozen=True, slots=True)
class ObjectOptions:
    """What a store is opened with: its configuration, that of its HTTP client, and a bearer token."""

    config: Mapping[str, Any] = field(repr=False)
    client: Mapping[str, Any] = field(repr=False)
    token: str | None = field(default=None, repr=False)


def known_properties(scheme: str) -> frozenset[str]:
    """The Iceberg properties that the store of a scheme supports.

    >>> "s3.region" in known_properties("s3"), "s3.signer.uri" in known_properties("s3")
    (True, False)
    """
    return frozenset(_OBSTORE_NAMES.get(scheme, {})) | frozenset(_SPECIAL.get(scheme, ()))


def parse_options(scheme: str, options: Mapping[str, Any], *, account: str | None = None) -> ObjectOptions:
    """The options in obstore's names; `account` selects one of the SAS tokens of Azure accounts.

    >>> options = parse_options("s3", {"s3.region": "eu-west-1", "s3.endpoint": "http://localhost:9000"})
    >>> sorted(options.config.items()), dict(options.client)
    ([('endpoint', 'http://localhost:9000'), ('region', 'eu-west-1')], {'allow_http': True})
    """
    relevant = {name: value for name, value in options.items() if _is_option_of(scheme, name)}
    config: dict[str, Any] = {}
    for name, value in relevant.items():
        if name == _PATH_STYLE:
            config["virtual_hosted_style_request"] = not _as_bool(name, value)
        elif name.startswith(_SAS_OF_ACCOUNT):
            if name.removeprefix(_SAS_OF_ACCOUNT).partition(".")[0] == account:
                config["sas_token"] = value
        elif name != _GOOGLE_TOKEN:
            config[_obstore_name(scheme, name)] = value
    client = {name: config.pop(name) for name in _CLIENT & config.keys()}
    if str(config.get("endpoint", "")).startswith("http://"):
        client.setdefault("allow_http", True)
    return ObjectOptions(config, client, relevant.get(_GOOGLE_TOKEN))


def format_options(options: Mapping[str, Any]) -> str:
    """The options as text, with secrets masked.

    >>> format_options({"s3.region": "eu-west-1", "secret_access_key": "abc"})
    's3.region=eu-west-1, secret_access_key=***'
    """
    short_names = {name: short for names in _OBSTORE_NAMES.values() for name, short in names.items()}
    return ", ".join(
        f"{name}={value if short_names.get(name, name) in _PUBLIC else '***'}"
        for name, value in sorted(options.items())
    )


def _is_option_of(scheme: str, name: str) -> bool:
    """Whether an option is for this store: names without a prefix are, and properties with the store's prefix."""
    return not name.startswith(_ALL_PREFIXES) or name.startswith(_PREFIXES.get(scheme, ()))


def _obstore_name(scheme: str, name: str) -> str:
    short = _OBSTORE_NAMES.get(scheme, {}).get(name)
    if short is None and name.startswith(_ALL_PREFIXES):
        raise InvalidInput(
            f"{scheme}:// does not support the property {name}",
            hint="supported are " + ", ".join(sorted(known_properties(scheme))),
        )
    return short or name


def _as_bool(name: str, value: Any) -> bool:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise InvalidInput(f"{name} must be true or false, found {text[:20]!r}")
    return text == "true"


# objects -------------------------------------------------------------------------------------------------------------

T = TypeVar("T")

_EXTRAS = {"s3": "floe[s3]", "gs": "floe[gcs]", "abfs": "floe[azure]"}  # what to install, by canonical scheme
_DELETE_BATCH = 1000
_LIST_CHUNK = 1000
_UPLOAD_RETRIES = 5
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>([A-Za-z.]{1,64})</Code>")
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_RANGE_AFTER_END = "StartTooLarge {"  # the library's own check, before it sends a request
_NO_BUCKET_CODES = frozenset({"NoSuchBucket", "ContainerNotFound", "FilesystemNotFound"})
# Only these mean that the object does not exist (None: answers without a body). Servers use 404 for other things too,
# and taking those for a missing object would report a deletion that did not happen.
_NO_FILE_CODES = frozenset({None, "NoSuchKey", "BlobNotFound", "PathNotFound", "ResourceNotFound"})
_DENIED_CODES = frozenset({"ExpiredToken", "InvalidToken", "TokenRefreshRequired"})  # S3 sends status 400 with these

Connect = Callable[[Location, int], Any]
"""Opens the store of a location's bucket, with a number of retries for each request."""


@dataclass(frozen=True, slots=True)
class _Bucket:
    """The clients of one bucket."""

    without_retries: Any
    with_retries: Any
    """For uploads in parts, where one of many requests fails easily."""


def _reopen(scheme: str, options: Mapping[str, Any], connect: Connect | None, lists_in_order: bool) -> ObjectStorage:
    """A storage that was sent to another process opens its buckets there."""
    return ObjectStorage(scheme, options, connect=connect, lists_in_order=lists_in_order)


class ObjectStorage:
    """The objects of all buckets of one kind of store, opened with the same options.

    `connect` opens buckets of other stores of the library; `lists_in_order=False` sorts the listings of stores that do
    not.
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
        self._obstore = load_library("obstore", needed_by=f"{scheme}://", install=_EXTRAS.get(scheme, "obstore"))
        self._errors = load_library("obstore.exceptions", needed_by=f"{scheme}://", install="obstore")
        self._custom_connect = connect
        self._connect = connect or self._open_bucket
        self._lists_in_order = lists_in_order
        self._buckets: dict[str, _Bucket] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.scheme, self._options, self._custom_connect, self._lists_in_order)

    def __repr__(self) -> str:
        return f"ObjectStorage({self.scheme}://; {format_options(self._options) or 'options from the environment'})"

    @property
    def creates_exclusively(self) -> bool:
        """True unless the options disable conditional requests."""
        return str(self._options.get("conditional_put", "")).lower() != "disabled"

    def read(self, location: str, *, max_bytes: int | None = None) -> bytes:
        """Read a complete object; its size is checked before its bytes are transferred."""

        def get(store: Any, key: str) -> bytes:
            result = self._obstore.get(store, key)
            check_size(location, result.meta["size"], max_bytes)
            return bytes(result.bytes())

        return self._call_object(location, get)

    def read_range(self, location: str, offset: int, length: int) -> bytes:
        """Read a byte range, shorter at the end of the object."""
        check_range(location, offset, length)
        if length == 0:
            self.stat(location)
            return b""

        def get_range(store: Any, key: str) -> bytes:
            return bytes(self._obstore.get_range(store, key, start=offset, length=length))

        try:
            return self._call_object(location, get_range)
        except _RangeAfterEnd:
            return b""

    def open_read(self, location: str) -> BinaryIO:
        """Open an object that is read in byte ranges."""
        return open_ranges(self, location)

    def open_write(self, location: str, *, overwrite: bool = False) -> FileWriter:
        """Open a stream that is uploaded when closed."""
        self._parse_file(location)
        return SpooledWriter(location, lambda content: self._upload(location, content, overwrite=overwrite))

    def write(self, location: str, data: Data, *, overwrite: bool = False) -> None:
        """Write a complete object; without `overwrite` by a conditional request, where the store has them."""
        if overwrite or not self.creates_exclusively:
            self._upload(location, bytes(data), overwrite=overwrite)
        else:
            self.create(location, data)

    def create(self, location: str, data: Data) -> None:
        """Create an object by one conditional request."""
        if not self.creates_exclusively:
            raise _not_exclusive(location)

        def put(store: Any, key: str) -> None:
            self._obstore.put(store, key, bytes(data), mode="create", use_multipart=False)

        self._call_object(location, put, writing=True)

    def delete_many(self, locations: Iterable[str]) -> Sequence[Deletion]:
        """Delete objects in batches where the store can; a failed batch is retried one by one for each outcome."""
        requested = list(locations)
        outcomes: dict[str, Deletion] = {}
        batches: dict[str, list[str]] = {}
        for location in dict.fromkeys(requested):
            try:
                batches.setdefault(self._parse_file(location).authority, []).append(location)
            except FloeError as error:
                outcomes[location] = Deletion.failed(location, error)
        for batch in batches.values():
            for start in range(0, len(batch), _DELETE_BATCH):
                outcomes.update((d.location, d) for d in self._delete_batch(batch[start : start + _DELETE_BATCH]))
        return [outcomes[location] for location in requested]

    def list(self, prefix: str) -> Iterator[FileInfo]:
        """List the objects below a folder, page by page, in the store's order (which is path order)."""
        objects = self._list_objects(self._parse(prefix))
        return objects if self._lists_in_order else iter(sorted(objects, key=lambda info: info.location))

    def folders(self, prefix: str) -> Iterator[str]:
        """List the common prefixes below a folder."""
        location = self._parse(prefix)
        store, folder = self._bucket(location).without_retries, location.path.removesuffix("/")
        listing = self._call(prefix, lambda: self._obstore.list_with_delimiter(store, folder or None))
        return iter(sorted(name.rstrip("/").rpartition("/")[2] for name in listing["common_prefixes"]))

    def make_folder(self, location: str) -> None:
        """Do nothing: folders are parts of keys."""
        self._parse(location)

    def remove_folder(self, location: str) -> None:
        """Raise if there are objects below the folder."""
        if next(self._list_objects(self._parse(location)), None) is not None:
            raise StorageError("the folder is not empty", location=location)

    def stat(self, location: str) -> FileInfo:
        """Return an object's size and modification time."""
        return _info(location, self._call_object(location, self._obstore.head))

    def exists(self, location: str) -> bool:
        """Whether the object exists."""
        try:
            self.stat(location)
        except NoSuchFile:
            return False
        return True

    def _list_objects(self, location: Location) -> Iterator[FileInfo]:
        store, folder = self._bucket(location).without_retries, location.folder

        def start() -> Iterator[Any]:
            return iter(self._obstore.list(store, folder.removesuffix("/") or None, chunk_size=_LIST_CHUNK))

        pages = self._call(location.text, start)
        while page := self._call(location.text, lambda: next(pages, None)):
            for meta in page:
                if meta["path"].startswith(folder):
                    yield _info(location.spelled(meta["path"]), meta)

    def _upload(self, location: str, content: Any, *, overwrite: bool) -> None:
        """Upload an object of any size, in parts if it is large; failed parts are retried."""
        if not overwrite and self.exists(location):
            raise file_exists_error(location)
        parsed = self._parse_file(location)
        store = self._bucket(parsed).with_retries
        self._call(location, lambda: self._obstore.put(store, parsed.path, content, mode="overwrite"), writing=True)

    def _delete_batch(self, batch: Sequence[str]) -> Sequence[Deletion]:
        locations = [self._parse_file(location) for location in batch]
        store = self._bucket(locations[0]).without_retries
        try:
            self._call(batch[0], lambda: self._obstore.delete(store, [location.path for location in locations]))
        except FloeError:
            return [self._delete_one(location) for location in batch]
        return [Deletion(location) for location in batch]

    def _delete_one(self, location: str) -> Deletion:
        try:
            self._call_object(location, lambda store, key: self._obstore.delete(store, [key]))
        except NoSuchFile:
            return Deletion(location)
        except FloeError as error:
            return Deletion.failed(location, error)
        return Deletion(location)

    def _parse(self, location: str) -> Location:
        parsed = parse(location)
        if parsed.scheme != self.scheme:
            raise InvalidLocation(f"the location is not in {self.scheme}://", location=location)
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
        # Raised outside the handler: the library's message can contain secret options, and must not be chained to ours.
        raise InvalidInput(
            f"{self.scheme}:// cannot be opened with these options"
            + (f"; it has no option {', '.join(names)}" if names else ""),
            options=format_options(self._options) or "none",
        )

    def _call_object(self, location: str, action: Callable[[Any, str], T], *, writing: bool = False) -> T:
        """Call the library for an object, with the client that does not retry."""
        parsed = self._parse_file(location)
        store = self._bucket(parsed).without_retries
        return self._call(location, lambda: action(store, parsed.path), writing=writing)

    def _call(self, location: str, action: Callable[[], T], *, writing: bool = False) -> T:
        """Call the library, and translate its errors without its text."""
        try:
            return action()
        except (self._errors.BaseError, OSError, ValueError, NotImplementedError) as error:
            failure = self._translate(error, location, writing)
        raise failure  # outside the handler, so that the library's text is not chained to it

    def _translate(self, error: Exception, location: str, writing: bool) -> FloeError:
        text = _store_message(str(error), parse(location).path)
        status = int(match[1]) if (match := _STATUS.search(text)) else None
        code = match[1] if (match := _CODE.search(text)) else None
        kinds = self._errors
        answer = f"the store answered {status or 'with an error'}{f' ({code})' if code else ''}"
        if isinstance(error, kinds.AlreadyExistsError):
            return file_exists_error(location)
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
        if status == 416 or _RANGE_AFTER_END in text:
            return _RangeAfterEnd("the range starts after the end of the file", location=location)
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


class _RangeAfterEnd(StorageError):
    """A range that starts after the end of the file."""


def _store_message(text: str, path: str) -> str:
    """An error's text without the object's name, if that was chosen to look like an answer of the store."""
    looks_like_answer = _STATUS.search(path) or _CODE.search(path) or _RANGE_AFTER_END in path
    return text.replace(path, "") if looks_like_answer else text


def _is_transient(status: int | None) -> bool:
    """Whether a later request may succeed, or there was no answer; after a write the outcome is unknown."""
    return status is None or status >= 500 or status in (408, 425, 429)


def _credentials(options: ObjectOptions) -> dict[str, Any]:
    """The bearer token, which obstore takes only from a function."""
    if options.token is None:
        return {}
    credential = {"token": options.token, "expires_at": None}
    return {"credential_provider": lambda: credential}


def _info(location: str, meta: Mapping[str, Any]) -> FileInfo:
    return FileInfo(location, int(meta["size"]), int(meta["last_modified"].timestamp() * 1000))


def _not_exclusive(location: str) -> UnsupportedFeature:
    return UnsupportedFeature(
        "this store cannot create files exclusively, so tables cannot be committed by creating files",
        hint="enable conditional writes (If-None-Match), or use a catalog in a database",
        location=location,
    )


def open_object_storage(scheme: str, options: Mapping[str, Any]) -> Storage:
    """Open an object store, with retries around it (the opener in `floe.storage.schemes`)."""
    return Retrying(ObjectStorage(scheme, options))

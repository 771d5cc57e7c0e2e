"""Options of object stores: Iceberg's property names and the library's own, and which of them may be shown.

Options are given with the names that Iceberg's catalogs use (`s3.access-key-id`) or with plain ones
(`access_key_id`, `region`, `endpoint`, …: those of obstore). Everything else comes from the environment, as with the
stores' own tools. Values are secrets unless listed as public. A property of this store that is not known is refused (it
is mostly a misspelt one); properties of other stores are passed over, since one set of options may serve several.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from floe.errors import InvalidInput

__all__ = ["ObjectOptions", "known_properties", "parse_options", "shown_options"]

_PREFIXES = {"s3": ("s3.", "client."), "gs": ("gcs.",), "abfs": ("adls.",)}
_ALL_PREFIXES = tuple(prefix for prefixes in _PREFIXES.values() for prefix in prefixes)
_PLAIN_NAMES = {
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
_PATH_STYLE = "s3.path-style-access"  # the opposite of the library's option
_GOOGLE_TOKEN = "gcs.oauth2.token"  # taken by the library only from a function
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
    """What a store is opened with: its configuration, its HTTP client's, and a bearer token if there is one."""

    config: Mapping[str, Any] = field(repr=False)
    client: Mapping[str, Any] = field(repr=False)
    token: str | None = field(default=None, repr=False)


def known_properties(scheme: str) -> frozenset[str]:
    """Iceberg's property names that a scheme understands: a catalog keeps these of what a server hands out.

    >>> "s3.region" in known_properties("s3"), "s3.signer.uri" in known_properties("s3")
    (True, False)
    """
    return frozenset(_PLAIN_NAMES.get(scheme, {})) | frozenset(_SPECIAL.get(scheme, ()))


def parse_options(scheme: str, options: Mapping[str, Any], *, account: str | None = None) -> ObjectOptions:
    """The options in the library's names; `account` is Azure's, whose token is chosen among several.

    >>> options = parse_options("s3", {"s3.region": "eu-west-1", "s3.endpoint": "http://localhost:9000"})
    >>> sorted(options.config.items()), dict(options.client)
    ([('endpoint', 'http://localhost:9000'), ('region', 'eu-west-1')], {'allow_http': True})
    """
    own = {name: value for name, value in options.items() if _is_own(scheme, name)}
    plain: dict[str, Any] = {}
    for name, value in own.items():
        if name == _PATH_STYLE:
            plain["virtual_hosted_style_request"] = not _as_bool(name, value)
        elif name.startswith(_SAS_OF_ACCOUNT):
            if name.removeprefix(_SAS_OF_ACCOUNT).partition(".")[0] == account:
                plain["sas_token"] = value
        elif name != _GOOGLE_TOKEN:
            plain[_plain_name(scheme, name)] = value
    client = {name: plain.pop(name) for name in _CLIENT & plain.keys()}
    if str(plain.get("endpoint", "")).startswith("http://"):
        client.setdefault("allow_http", True)
    return ObjectOptions(plain, client, own.get(_GOOGLE_TOKEN))


def shown_options(options: Mapping[str, Any]) -> str:
    """The options as text, secrets hidden.

    >>> shown_options({"s3.region": "eu-west-1", "secret_access_key": "abc"})
    's3.region=eu-west-1, secret_access_key=***'
    """
    plain = {name: short for names in _PLAIN_NAMES.values() for name, short in names.items()}
    return ", ".join(
        f"{name}={value if plain.get(name, name) in _PUBLIC else '***'}" for name, value in sorted(options.items())
    )


def _is_own(scheme: str, name: str) -> bool:
    """Whether an option is for this store: plain ones are, and properties with its prefix."""
    return not name.startswith(_ALL_PREFIXES) or name.startswith(_PREFIXES.get(scheme, ()))


def _plain_name(scheme: str, name: str) -> str:
    found = _PLAIN_NAMES.get(scheme, {}).get(name)
    if found is None and name.startswith(_ALL_PREFIXES):
        raise InvalidInput(
            f"{scheme}:// does not know the property {name}",
            hint="known are " + ", ".join(sorted(known_properties(scheme))),
        )
    return found or name


def _as_bool(name: str, value: Any) -> bool:
    text = str(value).lower()
    if text not in ("true", "false"):
        raise InvalidInput(f"{name} must be true or false, found {text[:20]!r}")
    return text == "true"

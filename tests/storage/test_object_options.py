"""Options of object stores: names, what is refused, and what may be shown."""

from typing import Any

import pytest

from floe.errors import InvalidInput
from floe.storage.object_stores import format_options, known_properties, parse_options


@pytest.mark.parametrize(
    ("scheme", "options", "config"),
    [
        ("s3", {"s3.region": "r", "s3.access-key-id": "a"}, {"region": "r", "access_key_id": "a"}),
        ("s3", {"client.region": "r"}, {"region": "r"}),
        ("s3", {"region": "r", "secret_access_key": "s"}, {"region": "r", "secret_access_key": "s"}),
        ("s3", {"s3.path-style-access": "true"}, {"virtual_hosted_style_request": False}),
        ("s3", {"s3.path-style-access": False}, {"virtual_hosted_style_request": True}),
        ("s3", {"gcs.project-id": "p", "adls.anything": "x"}, {}),
        ("gs", {"gcs.service-account-key": "k", "s3.region": "r"}, {"service_account_key": "k"}),
        ("abfs", {"adls.account-key": "k", "adls.client-id": "c"}, {"account_key": "k", "client_id": "c"}),
        ("abfs", {"adls.auth.shared-key.account.key": "k"}, {"account_key": "k"}),
    ],
)
def test_names_of_iceberg_and_of_the_library(scheme: str, options: dict[str, Any], config: dict[str, Any]) -> None:
    assert parse_options(scheme, options).config == config


def test_the_token_of_the_account_is_taken() -> None:
    options = {
        "adls.sas-token.one.dfs.core.windows.net": "first",
        "adls.sas-token.two": "second",
    }
    assert parse_options("abfs", options, account="one").config == {"sas_token": "first"}
    assert parse_options("abfs", options, account="two").config == {"sas_token": "second"}
    assert parse_options("abfs", options, account="three").config == {}


def test_a_token_of_google_is_kept_apart() -> None:
    options = parse_options("gs", {"gcs.oauth2.token": "canary"})
    assert options.token == "canary"
    assert "canary" not in repr(options)


@pytest.mark.parametrize(
    ("scheme", "name"), [("s3", "s3.acess-key-id"), ("gs", "gcs.nothing"), ("abfs", "adls.nothing")]
)
def test_unknown_properties_of_the_store_are_refused(scheme: str, name: str) -> None:
    with pytest.raises(InvalidInput, match=name) as caught:
        parse_options(scheme, {name: "canary"})
    assert "canary" not in str(caught.value)
    assert name not in known_properties(scheme)


def test_plain_http_is_allowed_only_when_the_endpoint_says_so() -> None:
    assert parse_options("s3", {"endpoint": "http://localhost:9000"}).client == {"allow_http": True}
    assert parse_options("s3", {"endpoint": "https://s3.example.com"}).client == {}
    assert parse_options("s3", {"endpoint": "http://x", "allow_http": False}).client == {"allow_http": False}


def test_yes_and_no_are_checked() -> None:
    with pytest.raises(InvalidInput, match="true or false"):
        parse_options("s3", {"s3.path-style-access": "maybe"})


def test_only_public_values_are_shown() -> None:
    text = format_options(
        {
            "s3.endpoint": "http://localhost",
            "s3.secret-access-key": "canary",
            "some_new_option": "canary",
            "adls.sas-token.acct": "canary",
        }
    )
    assert "http://localhost" in text
    assert "canary" not in text

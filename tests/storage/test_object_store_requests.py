"""What goes over the wire to Google's and Azure's stores: the condition of a `create`, sent once, and the key."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

import pytest

from floe.errors import FileAlreadyExists, OutcomeUnknown
from floe.storage.object_stores import ObjectStorage

pytest.importorskip("obstore", reason="obstore is not installed: pip install 'floe[s3]'")


class Recorder:
    """A server that writes down what it is asked, and answers as told."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.status = 201
        recorder = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_PUT(self) -> None:
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                headers = {name.lower(): value for name, value in self.headers.items()}
                recorder.requests.append((self.command, self.path, headers))
                self.send_response(recorder.status)
                self.send_header("ETag", '"1"')
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: Any) -> None:
                """Print no log lines."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.server.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    server = Recorder()
    yield server
    server.close()


def azure(recorder: Recorder) -> tuple[ObjectStorage, str]:
    options = {"endpoint": f"{recorder.url}/acct", "adls.account-key": "Zm9v"}
    return ObjectStorage("abfs", options), "abfss://c@acct.dfs.core.windows.net/wh/v1.metadata.json"


def google(recorder: Recorder) -> tuple[ObjectStorage, str]:
    account = {
        "gcs_base_url": recorder.url,
        "disable_oauth": True,
        "client_email": "",
        "private_key": "",
        "private_key_id": "",
    }
    options = {"gcs.service-account-key": json.dumps(account), "allow_http": True}
    return ObjectStorage("gs", options), "gs://c/wh/v1.metadata.json"


STORES = [
    pytest.param(azure, "/acct/c/wh/v1.metadata.json", ("if-none-match", "*"), id="azure"),
    pytest.param(google, "/c/wh/v1.metadata.json", ("x-goog-if-generation-match", "0"), id="google"),
]


@pytest.mark.parametrize(("store", "path", "condition"), STORES)
def test_a_create_carries_the_stores_condition(
    recorder: Recorder, store: Any, path: str, condition: tuple[str, str]
) -> None:
    storage, location = store(recorder)
    storage.create(location, b"{}")
    ((method, requested_path, headers),) = recorder.requests
    assert (method, unquote(requested_path)) == ("PUT", path)
    assert headers[condition[0]] == condition[1]


@pytest.mark.parametrize(("store", "path", "condition"), STORES)
def test_only_a_create_carries_it(recorder: Recorder, store: Any, path: str, condition: tuple[str, str]) -> None:
    storage, location = store(recorder)
    storage.write(location, b"{}", overwrite=True)
    assert condition[0] not in recorder.requests[0][2]


@pytest.mark.parametrize(("store", "path", "condition"), STORES)
@pytest.mark.parametrize(
    ("status", "error"),
    [(412, FileAlreadyExists), (409, FileAlreadyExists), (500, OutcomeUnknown), (503, OutcomeUnknown)],
)
def test_answers_to_a_create(
    recorder: Recorder, store: Any, path: str, condition: tuple[str, str], status: int, error: type[Exception]
) -> None:
    storage, location = store(recorder)
    recorder.status = status
    with pytest.raises(error):
        storage.create(location, b"{}")
    assert len(recorder.requests) == 1, "a create is sent once"

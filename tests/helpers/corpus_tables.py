"""Tables of the corpus, opened: their metadata, and a storage that finds the files under the recorded paths."""

import functools
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from floe.spec.metadata.table_metadata import TableMetadata
from floe.spec.metadata.table_metadata_json import parse
from floe.storage.local import LocalStorage
from floe.storage.protocol import Storage
from floe.storage.wrappers import PrefixMap
from helpers.corpus import expected

PREFIX = "/floe-corpus/"


@dataclass(frozen=True)
class CorpusTable:
    """A table, and the answers that are right."""

    name: str
    folder: Path
    metadata: TableMetadata
    storage: Storage
    facts: dict[str, Any]

    def relative(self, path: str) -> str:
        """A recorded path in the form that the answers have."""
        return path.split(f"{PREFIX}{self.name}/", 1)[1]


def corpus_storage(corpus_dir: Path) -> Storage:
    """The files of the corpus, under the paths that its metadata has for them."""
    return PrefixMap(LocalStorage(), {PREFIX: f"{corpus_dir}/"})


@functools.cache
def open_table(corpus_dir: Path, name: str) -> CorpusTable:
    """A table of the corpus."""
    facts = expected(corpus_dir, name)
    data = (corpus_dir / name / (facts.get("metadata") or facts["invalid"]["metadata"])).read_bytes()
    metadata = parse(data)
    return CorpusTable(name, corpus_dir / name, metadata, corpus_storage(corpus_dir), facts)

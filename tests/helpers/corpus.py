"""The corpus's table names and expected answers, for parametrised tests."""

import gzip
import json
from pathlib import Path
from typing import Any

TABLES_MD = Path(__file__).parent.parent / "corpus" / "tables.md"


def table_names(*prefixes: str, without: tuple[str, ...] = ()) -> list[str]:
    """The names of the corpus's tables that start with one of the prefixes (all, when none is given)."""
    rows = [line.split("|")[1].strip() for line in TABLES_MD.read_text().splitlines() if line.startswith("| ")]
    names = [name for name in rows if name != "table"]
    return [n for n in names if (not prefixes or n.startswith(prefixes)) and not (without and n.startswith(without))]


def expected(corpus_dir: Path, name: str) -> dict[str, Any]:
    """The right answers for one table."""
    return json.loads((corpus_dir / name / "expected.json").read_text())


def metadata_files(corpus_dir: Path, name: str) -> list[Path]:
    """Every metadata file of one table, gzipped ones too."""
    folder = corpus_dir / name / "metadata"
    return sorted([*folder.glob("*.metadata.json"), *folder.glob("*.metadata.json.gz")])


def read_metadata(path: Path) -> Any:
    """The JSON of a metadata file, gzipped or not."""
    data = path.read_bytes()
    return json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)

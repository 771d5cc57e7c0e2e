"""Write docs/configuration.md: every setting of Iceberg with what becomes of it, as the code has it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from floe.spark.settings import CATALOG_SETTINGS, HADOOP_SETTINGS, READ_OPTIONS, SESSION_SETTINGS, WRITE_OPTIONS
from floe.spec.metadata.known_properties import TABLE_PROPERTIES, Known

PAGE = Path(__file__).parent.parent / "docs" / "configuration.md"
HEAD = """# Configuration

Every property, option and setting on Iceberg's own pages of configuration, and some more that Java Iceberg has, with
what becomes of it. Nothing that has a meaning is passed over unsaid:

| state | meaning |
|---|---|
| works | Floe does what it says |
| warns | Floe does something else, which it says once: a Python warning, `floe.errors.IgnoredSetting` |
| refused | an error, since doing something else would be wrong |
| kept | of concern to other engines alone |

Values are looked at when they are set, and those that cannot be are an error that says what can be. A name that looks
like a misspelt one of these is warned of, and so is every unknown setting that begins with `spark.sql.iceberg.`.
`warnings.filterwarnings("error", category=floe.errors.IgnoredSetting)` makes errors of all warnings. This page is
written by `scripts/configuration.py` from the tables that the code goes by, and a test fails when it is out of date.
"""
SECTIONS: Mapping[str, tuple[str, Mapping[str, Known]]] = {
    "Table properties": ("`*` stands for the name of a column.", TABLE_PROPERTIES),
    "Catalogs in Spark": ("What follows `spark.sql.catalog.<name>.`", CATALOG_SETTINGS),
    "Settings of a Spark session": ("", SESSION_SETTINGS),
    "Read options": ("", READ_OPTIONS),
    "Write options": ("", WRITE_OPTIONS),
    "Hadoop": ("What follows `spark.hadoop.`", HADOOP_SETTINGS),
}


def row(known: Known) -> str:
    """A line of a table."""
    unless = f" ({', '.join(known.harmless)}: what happens anyway)" if known.harmless else ""
    return f"| `{known.name}` | {known.state} | {known.values.described} | {known.note}{unless} |"


def page() -> str:
    """The text of the page."""
    out = [HEAD]
    for title, (words, known) in SECTIONS.items():
        out.append(f"## {title}\n" + (words and f"\n{words}\n"))
        out.append("| name | state | values | |\n|---|---|---|---|")
        out.extend(row(one) for one in known.values())
        out.append("")
    return "\n".join(out)


if __name__ == "__main__":
    PAGE.write_text(page())

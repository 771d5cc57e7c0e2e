"""What the options of a read say: which state of the table, which range of its history, how large the parts are.

| option | |
|---|---|
| `snapshot-id`, `branch`, `tag`, `as-of-timestamp` (milliseconds) | the state; only one of them |
| `start-snapshot-id` (exclusive), `end-snapshot-id` (inclusive) | what was appended in between |
| `split-size` | how many bytes a task reads |
| `file-open-cost`, `lookback` | how many bytes a file weighs at least; among how many tasks one is chosen for it |
| `aggregate-push-down-enabled` | `false`: rows are read for what metadata could tell |

Settings of the session (`spark.sql.iceberg.read.split-size`, …) count where there is no such option.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from floe.errors import InvalidInput
from floe.spark.bridge.jvm import Jvm
from floe.spark.names import NOW, AsOf
from floe.spark.scan.source import Source
from floe.spark.settings import check_read_options
from floe.spec.metadata.table_metadata import TableMetadata

__all__ = ["audited_state", "state_of", "with_options"]

_SPLITS = {"split-size": "target_size", "file-open-cost": "open_file_cost", "lookback": "lookback"}
_STATES = ("snapshot-id", "branch", "tag", "as-of-timestamp", "end-snapshot-id")


def with_options(source: Source, given: Mapping[str, str], session: Mapping[str, str] = MappingProxyType({})) -> Source:
    """The source that a read with options reads, in a session with these settings of Iceberg."""
    check_read_options(given)
    as_of = state_of(given, source.as_of, source.name)
    source = replace(source, options=dict(given), as_of=as_of, session=session)
    if "start-snapshot-id" in given:
        source = replace(source, since=_number("start-snapshot-id", given["start-snapshot-id"]))
    elif "end-snapshot-id" in given:
        raise InvalidInput("end-snapshot-id is the end of a range, of which start-snapshot-id is the beginning")
    splits = {setting: _number(name, given[name]) for name, setting in _SPLITS.items() if name in given}
    if "read.split-size" in session:
        splits.setdefault("target_size", int(session["read.split-size"]))
    return replace(source, splits=splits)


def state_of(given: Mapping[str, str], named: AsOf, table: str) -> AsOf:
    """The state that a read with options reads, where a table's name says another one or none.

    >>> state_of({"tag": "eoy"}, AsOf(), "db.t").ref, state_of({}, AsOf(snapshot_id=7), "db.t").snapshot_id
    ('eoy', 7)
    """
    states = [name for name in _STATES if name in given]
    if len(states) > 1 or (states and not named.is_now):
        raise InvalidInput(f"the state that is read is said twice: {', '.join(states)}", table=table)
    return _state(states[0], given[states[0]]) if states else named


def audited_state(jvm: Jvm, metadata: TableMetadata) -> AsOf:
    """The state that is read where nobody says one: that of `spark.wap.branch`, for those who audit what they wrote.

    It counts for tables with `write.wap.enabled`, and where the branch is there; all others are read as they are now.
    """
    if metadata.properties.get("write.wap.enabled", "false").lower() != "true":
        return NOW
    branch = jvm.setting("spark.wap.branch", "")
    return AsOf(ref=branch) if branch in metadata.refs else NOW


def _state(name: str, value: str) -> AsOf:
    if name in ("branch", "tag"):
        return AsOf(ref=value)
    number = _number(name, value)
    return AsOf(timestamp_ms=number) if name == "as-of-timestamp" else AsOf(snapshot_id=number)


def _number(name: str, value: str) -> int:
    if not value.strip().isdigit():
        raise InvalidInput(f"{name} is a number, found {value!r}")
    return int(value)

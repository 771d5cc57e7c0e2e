"""What `ALTER TABLE` can do beyond Spark's own grammar, as values that run on a table.

Names of columns are taken as Spark takes them, whatever their case.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Literal, Protocol

from floe.errors import InvalidInput, NoSuchColumn, NoSuchRef
from floe.spec.properties import DISTRIBUTION_MODE
from floe.table.table import Table

Column = tuple[str, ...]
"""The path of a column."""


class TableAction(Protocol):
    """Something that `ALTER TABLE` does."""

    def run(self, table: Table) -> None:
        """Do it."""


@dataclass(frozen=True, slots=True)
class AddPartitionField:
    """`ADD PARTITION FIELD bucket(16, id) AS shard`."""

    term: str
    name: str | None = None

    def run(self, table: Table) -> None:
        """Partition by the term too."""
        table.update_spec(case_sensitive=False).add_field(self.term, self.name).commit()


@dataclass(frozen=True, slots=True)
class DropPartitionField:
    """`DROP PARTITION FIELD shard`, by its name or its term."""

    field: str

    def run(self, table: Table) -> None:
        """Stop partitioning by the field."""
        table.update_spec(case_sensitive=False).remove_field(self.field).commit()


@dataclass(frozen=True, slots=True)
class ReplacePartitionField:
    """`REPLACE PARTITION FIELD ts_day WITH hour(ts) AS h`."""

    field: str
    term: str
    name: str | None = None

    def run(self, table: Table) -> None:
        """Partition by the term in place of the field."""
        update = table.update_spec(case_sensitive=False)
        update.remove_field(self.field).add_field(self.term, self.name).commit()


@dataclass(frozen=True, slots=True)
class WriteOrder:
    """`WRITE [DISTRIBUTED BY PARTITION] [LOCALLY] ORDERED BY …`, or `WRITE UNORDERED`."""

    terms: tuple[str, ...]
    distribution: Literal["none", "hash", "range"] | None
    """How rows are brought together before they are written; None leaves it as it is."""

    def run(self, table: Table) -> None:
        """Set the order and the distribution, in one commit."""
        with table.transaction() as tx:
            tx.update_sort(*self.terms, case_sensitive=False)
            if self.distribution is not None:
                tx.set_properties({DISTRIBUTION_MODE.name: self.distribution})


@dataclass(frozen=True, slots=True)
class SetIdentifierFields:
    """`SET IDENTIFIER FIELDS id, data.key`."""

    columns: tuple[Column, ...]

    def run(self, table: Table) -> None:
        """Say which columns identify a row."""
        table.evolve(case_sensitive=False).set_identifier_fields(*self.columns).commit()


@dataclass(frozen=True, slots=True)
class DropIdentifierFields:
    """`DROP IDENTIFIER FIELDS id`; the others stay."""

    columns: tuple[Column, ...]

    def run(self, table: Table) -> None:
        """Say that these columns do not identify a row any more."""
        schema = table.schema
        left = dict.fromkeys(schema.identifier_field_ids)
        for column in self.columns:
            entry = schema.resolve(column, case_sensitive=False)
            if entry.field.id not in left:
                known = ", ".join(schema.identifier_names) or "none"
                raise NoSuchColumn(
                    "the column is no identifier field",
                    hint=f"the identifier fields are: {known}",
                    column=entry.name,
                )
            del left[entry.field.id]
        paths = (schema.entry(one).path for one in left)
        table.evolve().set_identifier_fields(*paths).commit()


@dataclass(frozen=True, slots=True)
class MakeRef:
    """`CREATE [OR REPLACE] BRANCH [IF NOT EXISTS] name AS OF VERSION 12 RETAIN 7 DAYS …`, the same for `TAG`."""

    type: Literal["branch", "tag"]
    name: str
    create: bool
    replace: bool
    if_not_exists: bool = False
    snapshot_id: int | None = None
    max_ref_age: timedelta | None = None
    min_snapshots: int | None = None
    max_snapshot_age: timedelta | None = None

    def run(self, table: Table) -> None:
        """Create the branch or tag, or point it elsewhere."""
        ref = table.refs.get(self.name)
        if ref is None or not self.replace:
            self._create(table)
            return
        if ref.type != self.type:
            raise InvalidInput(f"{self.name!r} is a {ref.type}, no {self.type}", table=table.name)
        current = table.current_snapshot
        target = self.snapshot_id if self.snapshot_id is not None or current is None else current.snapshot_id
        if target is None:
            raise InvalidInput(
                f"{self.type} {self.name!r} cannot be replaced: the table has no current snapshot",
                hint="name a snapshot: AS OF VERSION …",
                table=table.name,
            )
        with table.transaction() as tx:
            tx.replace_branch(self.name, target)
            given = {
                "min_snapshots": self.min_snapshots,
                "max_snapshot_age": self.max_snapshot_age,
                "max_ref_age": self.max_ref_age,
            }
            if settings := {name: value for name, value in given.items() if value is not None}:
                tx.set_retention(self.name, **settings)  # type: ignore[arg-type]

    def _create(self, table: Table) -> None:
        if not self.create:
            known = ", ".join(sorted(table.refs)) or "none"
            raise NoSuchRef(
                f"there is no {self.type} named {self.name!r} to replace",
                hint=f"known are: {known}; write CREATE OR REPLACE",
                table=table.name,
            )
        if self.if_not_exists and self.name in table.refs:
            return
        if self.type == "tag":
            table.create_tag(self.name, snapshot=self.snapshot_id, max_ref_age=self.max_ref_age)
            return
        table.create_branch(
            self.name,
            snapshot=self.snapshot_id,
            min_snapshots=self.min_snapshots,
            max_snapshot_age=self.max_snapshot_age,
            max_ref_age=self.max_ref_age,
        )


@dataclass(frozen=True, slots=True)
class DropRef:
    """`DROP BRANCH [IF EXISTS] name`, the same for `TAG`."""

    type: Literal["branch", "tag"]
    name: str
    if_exists: bool = False

    def run(self, table: Table) -> None:
        """Remove it."""
        drop = table.drop_branch if self.type == "branch" else table.drop_tag
        drop(self.name, if_exists=self.if_exists)

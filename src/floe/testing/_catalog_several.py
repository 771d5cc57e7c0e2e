"""What every catalog promises of several tables, and many writers, at once, as tests."""

from __future__ import annotations

from floe.catalog.identifiers import Identifier
from floe.catalog.protocol import Capability, Catalog
from floe.commit.pointer import Outcome, TableState
from floe.errors import CommitConflict, TableAlreadyExists
from floe.testing._catalog_steps import at_once, committed_at_last, created, loaded, new_metadata, proposed, raises

__all__ = ["CrowdPromises"]


class CrowdPromises:
    """Several tables, and many writers, at once."""

    def test_several_tables_are_committed_together(self, catalog: Catalog) -> None:
        """All or none: one conflict keeps all of them as they were; creations count too."""
        shared = catalog.shared
        assert (shared is not None) == (Capability.SEVERAL_TABLES in catalog.capabilities)
        if shared is None:
            return
        catalog.create_namespace(("db",))
        names = [("db", name) for name in ("a", "b")]
        pointers = [catalog.pointer(name) for name in names]
        bases = [created(catalog, name) for name in names]
        proposals = [proposed(p, base, {"round": "1"}) for p, base in zip(pointers, bases, strict=True)]
        new = catalog.pointer(("db", "c"))
        proposals.append(new.propose(None, new_metadata(catalog, ("db", "c"))))
        stale = [proposed(p, base, {"round": "stale"}) for p, base in zip(pointers, bases, strict=True)]
        shared.swap_all(proposals)
        assert shared.settle_all(proposals) is Outcome.PUBLISHED
        for proposal in proposals:
            proposal.pointer.finish(proposal)
        states = [loaded(catalog, name) for name in names]
        assert [state.metadata.properties["round"] for state in states] == ["1", "1"]
        assert catalog.table_exists(("db", "c"))
        mixed = [proposed(pointers[0], states[0], {"round": "2"}), stale[1]]
        with raises(CommitConflict):
            shared.swap_all(mixed)
        assert shared.settle_all(mixed) is Outcome.ABSENT
        last = [proposed(p, state, {"round": "3"}) for p, state in zip(pointers, states, strict=True)]
        shared.swap_all(list(reversed(last)))
        assert [loaded(catalog, name).metadata.properties["round"] for name in names] == ["3", "3"]

    # many at once --------------------------------------------------------------------------------------------

    def test_of_many_creators_one_wins(self, catalog: Catalog) -> None:
        """Eight threads create the same table: one is told that it did, and its table is there."""
        catalog.create_namespace(("db",))
        for n in range(3):
            name = ("db", f"t{n}")

            def create(_: int, name: Identifier = name) -> TableState | None:
                try:
                    return created(catalog, name)
                except TableAlreadyExists:
                    return None

            (winner,) = [made for made in at_once(create, 8) if made is not None]
            assert loaded(catalog, name).metadata == winner.metadata

    def test_no_commit_of_many_is_lost(self, catalog: Catalog) -> None:
        """Threads that commit to one table, each until it succeeds: all of it is there in the end."""
        catalog.create_namespace(("db",))
        created(catalog, ("db", "t"))

        def contend(number: int) -> int:
            pointer = catalog.pointer(("db", "t"))
            return sum(committed_at_last(pointer, f"{number}.{n}") for n in range(4))

        attempts = at_once(contend, 4)
        assert sum(attempts) >= 16
        properties = loaded(catalog, ("db", "t")).metadata.properties
        assert sorted(properties) == sorted(f"{number}.{n}" for number in range(4) for n in range(4))

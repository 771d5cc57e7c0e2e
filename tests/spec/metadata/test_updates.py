"""Table updates as values."""

from dataclasses import fields
from typing import get_args

import pytest

from floe.spec.metadata.updates import LAST_ADDED, SetCurrentSchema, SetDefaultSortOrder, SetDefaultSpec, TableUpdate
from helpers.update_samples import SAMPLES

# The mapping of `BaseUpdate` in the REST protocol, without the updates of views.
REST_ACTIONS = {
    "assign-uuid",
    "upgrade-format-version",
    "add-schema",
    "set-current-schema",
    "add-spec",
    "set-default-spec",
    "add-sort-order",
    "set-default-sort-order",
    "add-snapshot",
    "set-snapshot-ref",
    "remove-snapshots",
    "remove-snapshot-ref",
    "set-location",
    "set-properties",
    "remove-properties",
    "set-statistics",
    "remove-statistics",
    "set-partition-statistics",
    "remove-partition-statistics",
    "remove-partition-specs",
    "remove-schemas",
    "add-encryption-key",
    "remove-encryption-key",
}


def test_there_is_an_update_for_every_action_of_the_rest_protocol():
    assert {kind.action for kind in get_args(TableUpdate)} == REST_ACTIONS
    assert len(get_args(TableUpdate)) == len(REST_ACTIONS)
    assert set(SAMPLES) == REST_ACTIONS


@pytest.mark.parametrize("action", sorted(SAMPLES))
def test_an_update_is_a_value_that_never_changes(action):
    _, update = SAMPLES[action]
    names = [attribute.name for attribute in fields(update)]
    assert update == type(update)(**{name: getattr(update, name) for name in names})
    with pytest.raises(AttributeError):
        setattr(update, names[0], None)


def test_what_is_set_without_an_id_is_what_was_added_last():
    assert SetCurrentSchema().schema_id == SetDefaultSpec().spec_id == SetDefaultSortOrder().sort_order_id == LAST_ADDED

"""Procedures: `CALL lake.system.rollback_to_snapshot('db.t', 1)`; one class for each."""

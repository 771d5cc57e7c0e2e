"""DELETE, UPDATE, MERGE and upsert on Arrow: rows read, decided upon, and made into a change for `floe.commit`."""

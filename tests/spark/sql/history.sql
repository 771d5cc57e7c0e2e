-- Time travel, branches, tags, metadata tables and metadata columns.

CREATE TABLE t (id INT, name STRING);

INSERT INTO t VALUES (1, 'one');

SELECT snapshot_id FROM {ns}.t.snapshots;
--= first

INSERT INTO t VALUES (2, 'two');

SELECT current_timestamp();
--= before

SELECT max(committed_at) FROM {ns}.t.snapshots;
--= second_at

INSERT INTO t VALUES (3, 'three');

SELECT snapshot_id FROM {ns}.t.history ORDER BY made_current_at DESC LIMIT 1;
--= third

SELECT count(*) FROM t;
--> 3

SELECT * FROM t VERSION AS OF {first};
--> 1 | one

SELECT count(*) FROM t FOR SYSTEM_VERSION AS OF {first};
--> 1

SELECT count(*) FROM t TIMESTAMP AS OF '{second_at}';
--> 2

SELECT count(*) FROM t FOR SYSTEM_TIME AS OF '{second_at}';
--> 2

SELECT count(*) FROM t FOR TIMESTAMP AS OF TIMESTAMP '{before}';
--> 2

SELECT count(*) FROM t TIMESTAMP AS OF '1999-01-01 00:00:00';
--! 1999

SELECT count(*) FROM t VERSION AS OF 42;
--! 42

SELECT * FROM {ns}.t.snapshot_id_{first};
--> 1 | one

SELECT a.id, b.id FROM t VERSION AS OF {first} AS a RIGHT JOIN t AS b ON a.id = b.id ORDER BY b.id;
--> 1 | 1
--> NULL | 2
--> NULL | 3

INSERT INTO {ns}.t.snapshot_id_{first} VALUES (9, 'nine');
--! UNSUPPORTED_FEATURE

-- branches and tags

ALTER TABLE t CREATE TAG start AS OF VERSION {first} RETAIN 10 DAYS;

ALTER TABLE t CREATE TAG start;
--! start

ALTER TABLE t CREATE TAG IF NOT EXISTS start;

SELECT * FROM t VERSION AS OF 'start';
--> 1 | one

SELECT * FROM {ns}.t.tag_start;
--> 1 | one

ALTER TABLE t CREATE BRANCH audit RETAIN 7 DAYS WITH SNAPSHOT RETENTION 3 SNAPSHOTS;

INSERT INTO {ns}.t.branch_audit VALUES (4, 'four');

SELECT count(*) FROM t;
--> 3

SELECT count(*) FROM t VERSION AS OF 'audit';
--> 4

SELECT max(id) FROM {ns}.t.branch_audit;
--> 4

INSERT INTO {ns}.t.tag_start VALUES (4, 'four');
--! UNSUPPORTED_FEATURE

SELECT name, type, max_reference_age_in_ms, min_snapshots_to_keep FROM {ns}.t.refs ORDER BY name;
--> audit | BRANCH | 604800000 | 3
--> main | BRANCH | NULL | NULL
--> start | TAG | 864000000 | NULL

ALTER TABLE t REPLACE TAG start AS OF VERSION {third};

SELECT count(*) FROM t VERSION AS OF 'start';
--> 3

ALTER TABLE t DROP TAG start;

ALTER TABLE t DROP TAG start;
--! start

ALTER TABLE t DROP TAG IF EXISTS start;

ALTER TABLE t DROP BRANCH audit;

ALTER TABLE t DROP BRANCH main;
--! main

SELECT count(*) FROM t VERSION AS OF 'audit';
--! audit

SELECT name FROM {ns}.t.refs;
--> main

-- the columns of the past are those of the past

ALTER TABLE t ADD COLUMN more INT;

SELECT * FROM t VERSION AS OF {first};
--> 1 | one

SELECT * FROM t WHERE id = 1;
--> 1 | one | NULL

-- metadata tables

SELECT operation, summary['added-records'] FROM {ns}.t.snapshots WHERE parent_id IS NOT NULL OR true ORDER BY committed_at;
--> append | 1
--> append | 1
--> append | 1
--> append | 1

SELECT count(*), count(parent_id), bool_and(is_current_ancestor) FROM {ns}.t.history;
--> 3 | 2 | true

SELECT content, record_count, spec_id FROM {ns}.t.files;
--> 0 | 1 | 0
--> 0 | 1 | 0
--> 0 | 1 | 0

SELECT sum(record_count) FROM {ns}.t.files VERSION AS OF {first};
--> 1

SELECT sum(added_data_files_count), count(*) FROM {ns}.t.manifests;
--> 3 | 3

SELECT count(DISTINCT status) FROM {ns}.t.entries;
--> 1

SELECT count(*) FROM {ns}.t.all_data_files;
--> 4

SELECT count(*) FROM {ns}.t.delete_files;
--> 0

SELECT count(*) >= 6 FROM {ns}.t.metadata_log_entries;
--> true

SELECT readable_metrics.id.lower_bound, readable_metrics.name.value_count FROM {ns}.t.data_files ORDER BY 1;
--> 1 | 1
--> 2 | 1
--> 3 | 1

SELECT f.record_count, s.operation FROM {ns}.t.entries e
JOIN {ns}.t.snapshots s ON e.snapshot_id = s.snapshot_id JOIN {ns}.t.files f ON f.file_path = e.data_file.file_path
WHERE s.snapshot_id = {third};
--> 1 | append

SELECT * FROM {ns}.t.no_such_table;
--! has no metadata table no_such_table

INSERT INTO {ns}.t.files SELECT * FROM {ns}.t.files;
--! UNSUPPORTED_FEATURE

-- metadata columns

SELECT id, _pos, _spec_id, _file IS NOT NULL FROM t ORDER BY id;
--> 1 | 0 | 0 | true
--> 2 | 0 | 0 | true
--> 3 | 0 | 0 | true

SELECT count(*) FROM t JOIN {ns}.t.files f ON t._file = f.file_path;
--> 3

--@ v3
SELECT id, _row_id, _last_updated_sequence_number FROM t ORDER BY id;
--> 1 | 0 | 1
--> 2 | 1 | 2
--> 3 | 2 | 3

--@ v1 v2
SELECT _row_id FROM t;
--! UNRESOLVED_COLUMN

SELECT * FROM t WHERE _pos > 0;
--> nothing

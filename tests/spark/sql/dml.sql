-- DELETE, UPDATE and MERGE: what SQL says they do, whatever way the table keeps changes.

CREATE TABLE t (id INT, name STRING, amount DECIMAL(8, 2), s STRUCT<a: INT, b: STRING>);

INSERT INTO t VALUES
    (1, 'one', 10, named_struct('a', 1, 'b', 'x')), (2, 'two', 20, named_struct('a', 2, 'b', 'y')),
    (3, 'three', NULL, NULL), (4, NULL, 40, named_struct('a', 4, 'b', NULL)), (5, 'five', 50, NULL);

DELETE FROM t WHERE id = 1;

SELECT id FROM t ORDER BY id;
--> 2
--> 3
--> 4
--> 5

-- rows for which a condition is unknown stay

DELETE FROM t WHERE amount > 45 AND name <> 'two';

SELECT id FROM t ORDER BY id;
--> 2
--> 3
--> 4

DELETE FROM t WHERE NOT (amount > 0);

SELECT count(*) FROM t;
--> 3

DELETE FROM t WHERE name = 'nobody';

SELECT count(*) FROM t;
--> 3

UPDATE t SET amount = amount * 2 WHERE id = 2;

SELECT id, amount FROM t ORDER BY id;
--> 2 | 40.00
--> 3 | NULL
--> 4 | 40.00

UPDATE t SET name = upper(name), amount = coalesce(amount, 0);

SELECT id, name, amount FROM t ORDER BY id;
--> 2 | TWO | 40.00
--> 3 | THREE | 0.00
--> 4 | NULL | 40.00

UPDATE t SET s.b = 'new' WHERE s IS NOT NULL;

SELECT id, s.a, s.b FROM t ORDER BY id;
--> 2 | 2 | new
--> 3 | NULL | NULL
--> 4 | 4 | new

-- both sides of an assignment are read before any is made

UPDATE t SET id = id + 10, amount = id WHERE id = 2;

SELECT id, amount FROM t WHERE id > 10;
--> 12 | 2.00

UPDATE t SET nowhere = 1;
--! UNRESOLVED_COLUMN

UPDATE t SET id = 1, id = 2;
--! id

UPDATE t SET id = 'not a number' WHERE id = 12;
--! INCOMPATIBLE_DATA_FOR_TABLE

UPDATE nowhere SET id = 1;
--! TABLE_OR_VIEW_NOT_FOUND

CREATE TABLE listed (id INT);

INSERT INTO listed VALUES (3), (NULL);

DELETE FROM t WHERE id IN (SELECT id FROM listed);

SELECT id FROM t ORDER BY id;
--> 4
--> 12

DELETE FROM t WHERE id NOT IN (SELECT id FROM listed);

SELECT count(*) FROM t;
--> 2

UPDATE t SET name = 'largest' WHERE id = (SELECT max(id) FROM t);

SELECT name FROM t WHERE id = 12;
--> largest

DELETE FROM t WHERE EXISTS (SELECT 1 FROM listed l WHERE l.id + 1 = t.id);

SELECT id FROM t;
--> 12

-- MERGE

CREATE TABLE target (id INT, name STRING, n INT) PARTITIONED BY (bucket(2, id));

INSERT INTO target VALUES (1, 'a', 1), (2, 'b', 2), (3, 'c', 3), (4, NULL, NULL);

CREATE TABLE source (id INT, name STRING, n INT);

INSERT INTO source VALUES (2, 'B', 20), (3, 'delete', 30), (5, 'E', 50), (NULL, 'nobody', 0);

MERGE INTO target t USING source s ON t.id = s.id
WHEN MATCHED AND s.name = 'delete' THEN DELETE
WHEN MATCHED THEN UPDATE SET t.name = s.name, t.n = t.n + s.n
WHEN NOT MATCHED AND s.id IS NOT NULL THEN INSERT *;

SELECT * FROM target ORDER BY id;
--> 1 | a | 1
--> 2 | B | 22
--> 4 | NULL | NULL
--> 5 | E | 50

MERGE INTO target t USING (SELECT 1 AS id, 'x' AS name) s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET name = s.name
WHEN NOT MATCHED BY SOURCE AND t.n IS NULL THEN DELETE
WHEN NOT MATCHED BY SOURCE THEN UPDATE SET n = -1;

SELECT * FROM target ORDER BY id;
--> 1 | x | 1
--> 2 | B | -1
--> 5 | E | -1

MERGE INTO target t USING source s ON t.id = s.id WHEN NOT MATCHED THEN INSERT (id, n) VALUES (s.id, s.n + 1);

SELECT * FROM target ORDER BY id NULLS FIRST;
--> NULL | NULL | 1
--> 1 | x | 1
--> 2 | B | -1
--> 3 | NULL | 31
--> 5 | E | -1

-- a row that two rows of the source would change is an error, and nothing happens

MERGE INTO target t USING (SELECT 1 AS id UNION ALL SELECT 1) s ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = 'twice';
--! MERGE_CARDINALITY_VIOLATION

SELECT name FROM target WHERE id = 1;
--> x

MERGE INTO target t USING target s ON t.id = s.id AND s.n = -1 WHEN MATCHED THEN DELETE;

SELECT id FROM target ORDER BY id NULLS FIRST;
--> NULL
--> 1
--> 3

MERGE INTO target t USING source s ON false WHEN NOT MATCHED AND s.id = 5 THEN INSERT *;

SELECT id, name FROM target WHERE id = 5;
--> 5 | E

MERGE INTO target t USING source s ON t.id = s.id WHEN MATCHED THEN UPDATE SET nowhere = 1;
--! UNRESOLVED_COLUMN

MERGE INTO target t USING source s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET n = 7 WHEN MATCHED THEN DELETE;
--! NON_LAST_MATCHED_CLAUSE_OMIT_CONDITION

-- the other way to keep changes gives the same rows

--@ v2 v3
ALTER TABLE target SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read', 'write.update.mode' = 'merge-on-read', 'write.merge.mode' = 'merge-on-read');

TRUNCATE TABLE target;

INSERT INTO target SELECT id, 'name ' || id, id FROM range(1, 11);

DELETE FROM target WHERE id IN (2, 3);

UPDATE target SET n = n + 100 WHERE id BETWEEN 4 AND 5;

MERGE INTO target t USING source s ON t.id = s.id
WHEN MATCHED THEN UPDATE SET name = s.name, n = s.n
WHEN NOT MATCHED THEN INSERT *;

SELECT * FROM target WHERE id IS NULL OR id < 7 ORDER BY id NULLS FIRST;
--> NULL | nobody | 0
--> 1 | name 1 | 1
--> 2 | B | 20
--> 3 | delete | 30
--> 4 | name 4 | 104
--> 5 | E | 50
--> 6 | name 6 | 6

SELECT count(*), sum(n) FROM target;
--> 11 | 245

SELECT count(*) FROM target WHERE n > 100;
--> 1

--@ v2 v3
SELECT sum(record_count) > 0 FROM {ns}.target.delete_files;
--> true

--@ v1
SELECT count(*) FROM {ns}.target.delete_files;
--> 0

-- rows keep their ids

--@ v3
CREATE TABLE lineage (id INT, n INT);

--@ v3
INSERT INTO lineage VALUES (1, 1), (2, 2);

--@ v3
UPDATE lineage SET n = 20 WHERE id = 2;

--@ v3
SELECT id, n, _row_id, _last_updated_sequence_number FROM lineage ORDER BY id;
--> 1 | 1 | 0 | 1
--> 2 | 20 | 1 | 2

-- in a branch

ALTER TABLE target CREATE BRANCH apart;

DELETE FROM {ns}.target.branch_apart WHERE id > 5;

SELECT count(*) FROM target VERSION AS OF 'apart';
--> 6

SELECT count(*) FROM target;
--> 11

DELETE FROM target;

SELECT count(*) FROM target;
--> 0

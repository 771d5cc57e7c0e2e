-- INSERT: by position, by name, with lists and defaults; overwriting all, some partitions, or what comes.

CREATE TABLE t (id INT, name STRING, amount DECIMAL(8, 2));

INSERT INTO t VALUES (1, 'one', 1.5);

INSERT INTO t SELECT 2, 'two', 2.25;

INSERT INTO t TABLE t;

SELECT * FROM t ORDER BY id;
--> 1 | one | 1.50
--> 1 | one | 1.50
--> 2 | two | 2.25
--> 2 | two | 2.25

INSERT INTO t (name, id) VALUES ('three', 3);

SELECT * FROM t WHERE id = 3;
--> 3 | three | NULL

INSERT INTO t BY NAME SELECT 4.75 AS amount, 4 AS id, 'four' AS name;

SELECT * FROM t WHERE id = 4;
--> 4 | four | 4.75

INSERT INTO t BY NAME SELECT 5 AS id;

SELECT * FROM t WHERE id = 5;
--> 5 | NULL | NULL

INSERT INTO t BY NAME SELECT 5 AS id, 1 AS nowhere;
--! INCOMPATIBLE_DATA_FOR_TABLE

INSERT INTO t VALUES (1, 'too few');
--! INSERT_COLUMN_ARITY_MISMATCH

INSERT INTO t VALUES (1, 'too many', 1, 2);
--! INSERT_COLUMN_ARITY_MISMATCH

INSERT INTO t (id, nowhere) VALUES (1, 2);
--! UNRESOLVED_COLUMN

INSERT INTO t (id, id) VALUES (1, 2);
--! COLUMN_ALREADY_EXISTS

INSERT INTO t VALUES ('not a number', 'x', 1);
--! INCOMPATIBLE_DATA_FOR_TABLE

INSERT INTO t VALUES (3000000000, 'too large', 1);
--! CAST_OVERFLOW

INSERT INTO t VALUES (1, 'too large', 12345678.9);
--! CAST_OVERFLOW

INSERT INTO t VALUES (DATE '2024-01-01', 'a date is no number', 1);
--! INCOMPATIBLE_DATA_FOR_TABLE

INSERT INTO nowhere VALUES (1);
--! TABLE_OR_VIEW_NOT_FOUND

SELECT count(*) FROM t;
--> 7

INSERT INTO t SELECT * FROM t WHERE false;

SELECT count(*) FROM t;
--> 7

WITH more AS (SELECT 6 AS id) INSERT INTO t SELECT id, 'six', NULL FROM more;

SELECT name FROM t WHERE id = 6;
--> six

-- overwriting

INSERT OVERWRITE t SELECT id, upper(name), amount FROM t WHERE id = 4;

SELECT * FROM t;
--> 4 | FOUR | 4.75

INSERT OVERWRITE TABLE t VALUES (7, 'seven', 7);

SELECT * FROM t;
--> 7 | seven | 7.00

SELECT operation FROM {ns}.t.snapshots ORDER BY committed_at DESC LIMIT 1;
--> overwrite

INSERT OVERWRITE t SELECT * FROM t WHERE false;

SELECT count(*) FROM t;
--> 0

CREATE TABLE p (id INT, day DATE, kind STRING) PARTITIONED BY (day, kind);

INSERT INTO p VALUES (1, DATE '2024-01-01', 'a'), (2, DATE '2024-01-01', 'b'), (3, DATE '2024-01-02', 'a');

INSERT INTO p PARTITION (day = DATE '2024-01-03') VALUES (4, 'c');

INSERT INTO p PARTITION (day = DATE '2024-01-03', kind = 'd') VALUES (5);

SELECT id, day, kind FROM p WHERE id > 3 ORDER BY id;
--> 4 | 2024-01-03 | c
--> 5 | 2024-01-03 | d

SET spark.sql.sources.partitionOverwriteMode = static;

INSERT OVERWRITE p PARTITION (day = DATE '2024-01-01') VALUES (6, 'z');

SELECT id FROM p ORDER BY id;
--> 3
--> 4
--> 5
--> 6

INSERT OVERWRITE p PARTITION (day = DATE '2024-01-03', kind = 'c') SELECT 7;

SELECT id, kind FROM p WHERE day = DATE '2024-01-03' ORDER BY id;
--> 5 | d
--> 7 | c

SET spark.sql.sources.partitionOverwriteMode = dynamic;

INSERT OVERWRITE p VALUES (8, DATE '2024-01-02', 'a'), (9, DATE '2024-01-04', 'a');

SELECT id, day, kind FROM p ORDER BY id;
--> 5 | 2024-01-03 | d
--> 6 | 2024-01-01 | z
--> 7 | 2024-01-03 | c
--> 8 | 2024-01-02 | a
--> 9 | 2024-01-04 | a

INSERT OVERWRITE p PARTITION (day = DATE '2024-01-03', kind) VALUES (10, 'd');

SELECT id FROM p WHERE day = DATE '2024-01-03' ORDER BY id;
--> 7
--> 10

RESET spark.sql.sources.partitionOverwriteMode;

INSERT OVERWRITE p VALUES (11, DATE '2024-01-05', 'only');

SELECT id FROM p;
--> 11

CREATE TABLE hidden (id INT, at TIMESTAMP) PARTITIONED BY (days(at));

INSERT INTO hidden VALUES (1, TIMESTAMP '2024-01-01 01:00:00'), (2, TIMESTAMP '2024-01-01 02:00:00'), (3, TIMESTAMP '2024-01-02 01:00:00');

SET spark.sql.sources.partitionOverwriteMode = dynamic;

INSERT OVERWRITE hidden VALUES (4, TIMESTAMP '2024-01-01 05:00:00');

RESET spark.sql.sources.partitionOverwriteMode;

SELECT id FROM hidden ORDER BY id;
--> 3
--> 4

INSERT INTO p REPLACE WHERE kind = 'only' SELECT 12, DATE '2024-01-06', 'only';

SELECT id FROM p;
--> 12

-- deleting whole files needs no rows to be read

DELETE FROM p WHERE day = DATE '2024-01-06';

SELECT count(*) FROM p;
--> 0

DELETE FROM hidden WHERE at >= TIMESTAMP '2024-01-02 00:00:00' AND at < TIMESTAMP '2024-01-03 00:00:00';

SELECT id FROM hidden;
--> 4

TRUNCATE TABLE hidden;

SELECT * FROM hidden;
--> nothing

-- from one table to another, and structs by name

CREATE TABLE source (s STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<x: INT>>);

INSERT INTO source VALUES (named_struct('a', 1, 'b', 'x'), array(named_struct('x', 1), NULL)), (NULL, NULL);

CREATE TABLE target (l ARRAY<STRUCT<x: BIGINT>>, s STRUCT<b: STRING, a: INT>);

INSERT INTO target BY NAME SELECT s, l FROM source;

SELECT s.a, s.b, l FROM target ORDER BY s.a NULLS LAST;
--> 1 | x | [{1}, null]
--> NULL | NULL | NULL

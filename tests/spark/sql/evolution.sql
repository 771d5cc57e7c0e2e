-- What queries give after a table has changed: old files are read as the columns are now, by their ids.

CREATE TABLE swapped (a STRING, b STRING);

INSERT INTO swapped VALUES ('was a', 'was b');

ALTER TABLE swapped RENAME COLUMN a TO c;

ALTER TABLE swapped RENAME COLUMN b TO a;

ALTER TABLE swapped RENAME COLUMN c TO b;

SELECT a, b FROM swapped;
--> was b | was a

SELECT a FROM swapped WHERE a = 'was b';
--> was b

SELECT count(*) FROM swapped WHERE b = 'was b';
--> 0

INSERT INTO swapped (a, b) VALUES ('new a', 'new b');

SELECT a, b FROM swapped ORDER BY a;
--> new a | new b
--> was b | was a

CREATE TABLE again (id INT, x INT);

INSERT INTO again VALUES (1, 10);

ALTER TABLE again DROP COLUMN x;

ALTER TABLE again ADD COLUMN x STRING;

SELECT id, x FROM again;
--> 1 | NULL

INSERT INTO again VALUES (2, 'two');

SELECT id, x FROM again ORDER BY id;
--> 1 | NULL
--> 2 | two

SELECT id FROM again WHERE x IS NULL;
--> 1

CREATE TABLE wider (i INT, f FLOAT, d DECIMAL(4, 1));

INSERT INTO wider VALUES (2147483647, 0.5, 123.4), (NULL, NULL, NULL);

ALTER TABLE wider ALTER COLUMN i TYPE BIGINT;

ALTER TABLE wider ALTER COLUMN f TYPE DOUBLE;

ALTER TABLE wider ALTER COLUMN d TYPE DECIMAL(20, 1);

INSERT INTO wider VALUES (2147483648, 0.1, 1234567890123.4);

SELECT i, f, d FROM wider ORDER BY i NULLS LAST;
--> 2147483647 | 0.5 | 123.4
--> 2147483648 | 0.1 | 1234567890123.4
--> NULL | NULL | NULL

SELECT i FROM wider WHERE i > 2147483647;
--> 2147483648

SELECT max(i), min(d), count(f) FROM wider;
--> 2147483648 | 123.4 | 2

-- partitions change; the rows do not

CREATE TABLE moved (id INT, at TIMESTAMP_NTZ, kind STRING);

INSERT INTO moved VALUES (1, TIMESTAMP_NTZ '2024-01-01 10:00:00', 'a');

ALTER TABLE moved ADD PARTITION FIELD kind;

INSERT INTO moved VALUES (2, TIMESTAMP_NTZ '2024-01-02 10:00:00', 'b'), (3, TIMESTAMP_NTZ '2024-01-02 11:00:00', 'a');

ALTER TABLE moved ADD PARTITION FIELD days(at) AS day;

INSERT INTO moved VALUES (4, TIMESTAMP_NTZ '2024-01-02 12:00:00', 'b');

ALTER TABLE moved REPLACE PARTITION FIELD day WITH hours(at);

INSERT INTO moved VALUES (5, TIMESTAMP_NTZ '2024-01-03 00:30:00', 'b'), (6, NULL, NULL);

SELECT id FROM moved WHERE kind = 'b' ORDER BY id;
--> 2
--> 4
--> 5

SELECT id FROM moved WHERE at >= TIMESTAMP_NTZ '2024-01-02 11:00:00' ORDER BY id;
--> 3
--> 4
--> 5

SELECT id FROM moved WHERE at IS NULL;
--> 6

SELECT DISTINCT spec_id FROM {ns}.moved.files ORDER BY spec_id;
--> 0
--> 1
--> 2
--> 3

ALTER TABLE moved DROP PARTITION FIELD kind;

SELECT count(*), count(DISTINCT kind) FROM moved;
--> 6 | 2

ALTER TABLE moved DROP PARTITION FIELD nowhere;
--! nowhere

ALTER TABLE moved ADD PARTITION FIELD nowhere;
--! nowhere

ALTER TABLE moved RENAME COLUMN at TO moment;

SELECT id FROM moved WHERE moment < TIMESTAMP_NTZ '2024-01-02 00:00:00';
--> 1

-- defaults: a value for rows that were there (version 3), and for rows to come

--@ v3
CREATE TABLE defaults (id INT, n INT DEFAULT 5, s STRING DEFAULT 'it''s');

--@ v3
INSERT INTO defaults (id) VALUES (1);

--@ v3
SELECT * FROM defaults;
--> 1 | 5 | it's

--@ v3
ALTER TABLE defaults ADD COLUMN d DATE DEFAULT DATE '2024-02-29';

--@ v3
ALTER TABLE defaults ADD COLUMN big BIGINT DEFAULT 40 + 2;

--@ v3
SELECT * FROM defaults;
--> 1 | 5 | it's | 2024-02-29 | 42

--@ v3
SELECT id FROM defaults WHERE big = 42 AND d < DATE '2024-03-01';
--> 1

--@ v3
ALTER TABLE defaults ALTER COLUMN n SET DEFAULT 6;

--@ v3
INSERT INTO defaults (id, big) VALUES (2, DEFAULT);

--@ v3
INSERT INTO defaults VALUES (3, DEFAULT, NULL, NULL, NULL);

--@ v3
SELECT * FROM defaults ORDER BY id;
--> 1 | 5 | it's | 2024-02-29 | 42
--> 2 | 6 | it's | 2024-02-29 | 42
--> 3 | 6 | NULL | NULL | NULL

--@ v3
ALTER TABLE defaults ALTER COLUMN n DROP DEFAULT;

--@ v3
INSERT INTO defaults (id) VALUES (4);

--@ v3
SELECT id, n FROM defaults WHERE id >= 3 ORDER BY id;
--> 3 | 6
--> 4 | NULL

--@ v1 v2
ALTER TABLE again ADD COLUMN d INT DEFAULT 5;
--! version 3

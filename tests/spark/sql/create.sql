-- CREATE TABLE in all its forms.

CREATE TABLE plain (id BIGINT, name STRING);

DESCRIBE plain;
--> id | bigint | NULL
--> name | string | NULL

CREATE TABLE plain (id BIGINT);
--! TABLE_OR_VIEW_ALREADY_EXISTS

CREATE TABLE IF NOT EXISTS plain (other INT);

SELECT count(*) FROM plain;
--> 0

CREATE TABLE every_type (
    a BOOLEAN, b TINYINT, c SMALLINT, d INT, e BIGINT, f FLOAT, g DOUBLE, h DECIMAL(10, 2), i DATE, j TIMESTAMP,
    k TIMESTAMP_NTZ, l STRING, m BINARY, n VARCHAR(5), o CHAR(3), p ARRAY<INT>, q MAP<STRING, BIGINT>,
    r STRUCT<x: INT, y: ARRAY<STRUCT<z: STRING>>>);

INSERT INTO every_type VALUES (
    true, 1, 2, 3, 4, 1.5, 2.5, 12.34, DATE '2024-02-29', TIMESTAMP '2024-02-29 12:30:00', TIMESTAMP_NTZ '2024-02-29 12:30:00.123456',
    'text', X'0AFF', 'abc', 'xyz', array(1, NULL, 3), map('k', 7), named_struct('x', 1, 'y', array(named_struct('z', 'deep'))));

SELECT a, b, c, d, e, f, g, h FROM every_type;
--> true | 1 | 2 | 3 | 4 | 1.5 | 2.5 | 12.34

SELECT i, j, k, l, hex(m), n, o FROM every_type;
--> 2024-02-29 | 2024-02-29 12:30:00 | 2024-02-29 12:30:00.123456 | text | 0AFF | abc | xyz

SELECT p[0], p[1], size(p), q['k'], r.x, r.y[0].z FROM every_type;
--> 1 | NULL | 3 | 7 | 1 | deep

SELECT typeof(b), typeof(c), typeof(h), typeof(j), typeof(k), typeof(p) FROM every_type;
--> int | int | decimal(10,2) | timestamp | timestamp_ntz | array<int>

CREATE TABLE strict (id INT NOT NULL, s STRUCT<a: INT NOT NULL, b: INT> NOT NULL);

INSERT INTO strict VALUES (NULL, named_struct('a', 1, 'b', 2));
--! null for

INSERT INTO strict VALUES (1, named_struct('a', 1, 'b', NULL));

SELECT id, s.a, s.b FROM strict;
--> 1 | 1 | NULL

CREATE TABLE commented (id INT COMMENT 'the key', name STRING COMMENT "it's a name") COMMENT 'a table';

DESCRIBE commented;
--> id | int | the key
--> name | string | it's a name

CREATE TABLE used (id INT) USING iceberg;

CREATE TABLE used_parquet (id INT) USING parquet;

SHOW TBLPROPERTIES used_parquet ('write.format.default');
--> write.format.default | parquet

CREATE TABLE used_orc (id INT, s STRING) USING orc;

INSERT INTO used_orc VALUES (1, 'o');

SELECT * FROM used_orc;
--> 1 | o

SELECT file_format FROM {ns}.used_orc.files;
--> ORC

CREATE TABLE used_avro (id INT, s STRING) USING avro;

INSERT INTO used_avro VALUES (1, 'a');

SELECT * FROM used_avro;
--> 1 | a

SELECT file_format FROM {ns}.used_avro.files;
--> AVRO

CREATE TABLE wrong_format (id INT) USING csv;
--! a table of this catalog is using iceberg

CREATE TABLE with_properties (id INT) TBLPROPERTIES ('write.target-file-size-bytes' = '1000', 'mine' = 'yes');

SHOW TBLPROPERTIES with_properties ('mine');
--> mine | yes

CREATE TABLE twice (id INT, id INT);
--! COLUMN_ALREADY_EXISTS

CREATE TABLE twice (id INT, ID INT);
--! COLUMN_ALREADY_EXISTS

CREATE TABLE unknown_type (id NUMBER_OF_THINGS);
--! UNSUPPORTED_DATATYPE

CREATE TABLE an_interval (d INTERVAL DAY);
--! iceberg has no type

-- tables of queries

CREATE TABLE of_query AS SELECT 1 AS id, 'a' AS name UNION ALL SELECT 2, 'b';

SELECT * FROM of_query ORDER BY id;
--> 1 | a
--> 2 | b

CREATE TABLE of_query AS SELECT 1 AS id;
--! TABLE_OR_VIEW_ALREADY_EXISTS

CREATE TABLE IF NOT EXISTS of_query AS SELECT 9 AS id;

SELECT count(*) FROM of_query;
--> 2

CREATE TABLE of_query_too PARTITIONED BY (name) TBLPROPERTIES ('mine' = 'yes') AS SELECT * FROM of_query;

SELECT partition.name, record_count FROM {ns}.of_query_too.partitions ORDER BY 1;
--> a | 1
--> b | 1

CREATE TABLE empty_query AS SELECT * FROM of_query WHERE false;

SELECT count(*) FROM empty_query;
--> 0

CREATE OR REPLACE TABLE of_query AS SELECT id * 10 AS tens FROM of_query;

SELECT * FROM of_query ORDER BY tens;
--> 10
--> 20

SELECT count(*) FROM {ns}.of_query.snapshots;
--> 2

REPLACE TABLE of_query (other STRING);

SELECT * FROM of_query;
--> nothing

DESCRIBE of_query;
--> other | string | NULL

REPLACE TABLE nowhere (id INT);
--! TABLE_OR_VIEW_NOT_FOUND

CREATE OR REPLACE TABLE made_or_replaced (id INT);

CREATE OR REPLACE TABLE made_or_replaced AS SELECT 5 AS five;

SELECT * FROM made_or_replaced;
--> 5

CREATE TABLE broken AS SELECT CAST(raise_error('no') AS INT) AS x FROM made_or_replaced;
--! USER_RAISED_EXCEPTION

SELECT * FROM broken;
--! TABLE_OR_VIEW_NOT_FOUND

-- tables like others

CREATE TABLE original (id INT NOT NULL COMMENT 'key', at TIMESTAMP) PARTITIONED BY (days(at)) TBLPROPERTIES ('mine' = 'yes');

INSERT INTO original VALUES (1, NULL);

CREATE TABLE alike LIKE original;

DESCRIBE alike;
--> id | int | key
--> at | timestamp | NULL
-->  |  |
--> # Partitioning |  |
--> Part 0 | days(at) |

SELECT count(*) FROM alike;
--> 0

SHOW TBLPROPERTIES alike ('mine');
--> mine | yes

CREATE TABLE alike LIKE original;
--! TABLE_OR_VIEW_ALREADY_EXISTS

CREATE TABLE IF NOT EXISTS alike LIKE original;

-- listing and dropping

SHOW TABLES LIKE 'used*';
--> {ns} | used | false
--> {ns} | used_avro | false
--> {ns} | used_orc | false
--> {ns} | used_parquet | false

SHOW COLUMNS IN plain;
--> id
--> name

SHOW COLUMNS IN nowhere;
--! TABLE_OR_VIEW_NOT_FOUND

DROP TABLE used;

DROP TABLE used;
--! TABLE_OR_VIEW_NOT_FOUND

DROP TABLE IF EXISTS used;

DROP TABLE used_orc PURGE;

SHOW TABLES LIKE 'used*';
--> {ns} | used_avro | false
--> {ns} | used_parquet | false

--@ sq
ALTER TABLE plain RENAME TO {ns}.plainer;

--@ sq
SELECT count(*) FROM plainer;
--> 0

--@ sq
SELECT count(*) FROM plain;
--! TABLE_OR_VIEW_NOT_FOUND

--@ lake
ALTER TABLE plain RENAME TO {ns}.plainer;
--! cannot be renamed

TRUNCATE TABLE made_or_replaced;

SELECT count(*) FROM made_or_replaced;
--> 0

SELECT operation FROM {ns}.made_or_replaced.snapshots ORDER BY committed_at DESC LIMIT 1;
--> delete

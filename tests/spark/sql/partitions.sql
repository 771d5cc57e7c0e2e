-- Partitioned tables: every transform, both spellings, and what filters find.

CREATE TABLE by_value (id INT, kind STRING) PARTITIONED BY (kind);

INSERT INTO by_value VALUES (1, 'a'), (2, 'b'), (3, 'a'), (4, NULL), (5, 'x/y z');

SELECT id FROM by_value WHERE kind = 'a' ORDER BY id;
--> 1
--> 3

SELECT id FROM by_value WHERE kind IS NULL;
--> 4

SELECT id FROM by_value WHERE kind <> 'a' ORDER BY id;
--> 2
--> 5

SELECT partition.kind, record_count, file_count FROM {ns}.by_value.partitions ORDER BY partition.kind NULLS FIRST;
--> NULL | 1 | 1
--> a | 2 | 1
--> b | 1 | 1
--> x/y z | 1 | 1

SHOW PARTITIONS by_value;
--> kind=a
--> kind=b
--> kind=null
--> kind=x%2Fy z

SHOW PARTITIONS by_value PARTITION (kind = 'a');
--> kind=a

SHOW PARTITIONS by_value PARTITION (nowhere = 'a');
--! nowhere

CREATE TABLE unpartitioned (id INT);

SHOW PARTITIONS unpartitioned;
--! INVALID_PARTITION_OPERATION

CREATE TABLE by_time (id INT, y DATE, m DATE, d TIMESTAMP_NTZ, h TIMESTAMP)
PARTITIONED BY (years(y), months(m), days(d), hours(h));

INSERT INTO by_time VALUES
    (1, DATE '2023-06-15', DATE '2023-06-15', TIMESTAMP_NTZ '2023-06-15 23:59:59', TIMESTAMP '2023-06-15 10:59:59'),
    (2, DATE '2024-01-01', DATE '2024-01-31', TIMESTAMP_NTZ '2024-01-31 00:00:00', TIMESTAMP '2024-01-31 11:00:00'),
    (3, DATE '1969-12-31', DATE '1969-12-31', TIMESTAMP_NTZ '1969-12-31 23:00:00', TIMESTAMP '1969-12-31 23:59:59'),
    (4, NULL, NULL, NULL, NULL);

SHOW PARTITIONS by_time;
--> y_year=1969/m_month=1969-12/d_day=1969-12-31/h_hour=1969-12-31-23
--> y_year=2023/m_month=2023-06/d_day=2023-06-15/h_hour=2023-06-15-10
--> y_year=2024/m_month=2024-01/d_day=2024-01-31/h_hour=2024-01-31-11
--> y_year=null/m_month=null/d_day=null/h_hour=null

SELECT id FROM by_time WHERE y >= DATE '2023-12-31' ORDER BY id;
--> 2

SELECT id FROM by_time WHERE m BETWEEN DATE '2023-06-01' AND DATE '2023-06-30';
--> 1

SELECT id FROM by_time WHERE d = TIMESTAMP_NTZ '2024-01-31 00:00:00';
--> 2

SELECT id FROM by_time WHERE h < TIMESTAMP '1970-01-01 00:00:00';
--> 3

SELECT id FROM by_time WHERE year(y) = 2023;
--> 1

SELECT id FROM by_time WHERE CAST(d AS DATE) = DATE '2023-06-15';
--> 1

SELECT id FROM by_time WHERE d IS NULL AND h IS NULL;
--> 4

CREATE TABLE other_spelling (id INT, y DATE, m DATE, d TIMESTAMP_NTZ, h TIMESTAMP)
PARTITIONED BY (year(y), month(m), day(d), hour(h));

DESCRIBE other_spelling;
--> id | int | NULL
--> y | date | NULL
--> m | date | NULL
--> d | timestamp_ntz | NULL
--> h | timestamp | NULL
-->  |  |
--> # Partitioning |  |
--> Part 0 | years(y) |
--> Part 1 | months(m) |
--> Part 2 | days(d) |
--> Part 3 | hours(h) |

-- bucket values are those of the specification's appendix: the hash of 34 is 2017239379, of 'iceberg' 1210000089

CREATE TABLE by_bucket (id INT, big BIGINT, s STRING) PARTITIONED BY (bucket(100, id), bucket(100, big), bucket(100, s));

INSERT INTO by_bucket VALUES (34, 34, 'iceberg'), (NULL, NULL, NULL);

SHOW PARTITIONS by_bucket;
--> id_bucket=79/big_bucket=79/s_bucket=89
--> id_bucket=null/big_bucket=null/s_bucket=null

SELECT id FROM by_bucket WHERE id = 34 AND s = 'iceberg';
--> 34

SELECT count(*) FROM by_bucket WHERE id IN (1, 2, 3);
--> 0

CREATE TABLE by_prefix (id INT, s STRING, d DECIMAL(9, 2)) PARTITIONED BY (truncate(10, id), truncate(s, 2), truncate(50, d));

INSERT INTO by_prefix VALUES (1, 'iceberg', 10.65), (-1, 'ice', -0.01), (10, 'x', 0.49);

SHOW PARTITIONS by_prefix;
--> id_trunc=-10/s_trunc=ic/d_trunc=-0.50
--> id_trunc=0/s_trunc=ic/d_trunc=10.50
--> id_trunc=10/s_trunc=x/d_trunc=0.00

SELECT id FROM by_prefix WHERE s LIKE 'ice%' ORDER BY id;
--> -1
--> 1

SELECT id FROM by_prefix WHERE id < 0;
--> -1

CREATE TABLE by_nothing (id INT) PARTITIONED BY (nowhere);
--! nowhere

CREATE TABLE by_list (id INT, l ARRAY<INT>) PARTITIONED BY (l);
--! l

CREATE TABLE by_hour_of_date (d DATE) PARTITIONED BY (hours(d));
--! hour

CREATE TABLE nested (id INT, s STRUCT<kind: STRING, at: DATE>) PARTITIONED BY (s.kind, months(s.at));

INSERT INTO nested VALUES (1, named_struct('kind', 'a', 'at', DATE '2024-01-01')), (2, named_struct('kind', 'b', 'at', DATE '2024-02-01')), (3, NULL);

SELECT id FROM nested WHERE s.kind = 'b';
--> 2

SELECT id FROM nested WHERE s.at < DATE '2024-02-01';
--> 1

SELECT id FROM nested WHERE s IS NULL;
--> 3

SELECT id, _partition FROM nested ORDER BY id;
--> 1 | {a, 648}
--> 2 | {b, 649}
--> 3 | {null, null}

-- what a filter need not read

SELECT count(*) FROM (SELECT DISTINCT _file FROM by_value WHERE kind IN ('a', 'b'));
--> 2

-- joins prune the files of one side by the rows of the other

CREATE TABLE wanted (kind STRING);

INSERT INTO wanted VALUES ('b');

SELECT id FROM by_value JOIN wanted USING (kind);
--> 2

SELECT id FROM by_value WHERE kind IN (SELECT kind FROM wanted);
--> 2

SELECT id FROM by_value WHERE kind NOT IN (SELECT kind FROM wanted) ORDER BY id;
--> 1
--> 3
--> 5

-- The catalog's functions. The hashes are those of the specification's appendix B.

SELECT {catalog}.system.bucket(2147483647, 34), {catalog}.system.bucket(2147483647, 34L);
--> 2017239379 | 2017239379

SELECT {catalog}.system.bucket(2147483647, 'iceberg'), {catalog}.system.bucket(2147483647, X'00010203');
--> 1210000089 | 1958800441

SELECT {catalog}.system.truncate(10, 1), {catalog}.system.truncate(10, -1), {catalog}.system.truncate(3, 'iceberg');
--> 0 | -10 | ice

SELECT {catalog}.system.truncate(50, CAST(10.65 AS DECIMAL(9, 2))), {catalog}.system.bucket(4, CAST(NULL AS INT));
--> 10.50 | NULL

CREATE TABLE t (i INT, l BIGINT, s STRING, b BINARY, d DATE, ts TIMESTAMP, n TIMESTAMP_NTZ, c DECIMAL(9, 2));

INSERT INTO t VALUES
    (34, 34, 'iceberg', X'00010203', DATE '2017-11-16', TIMESTAMP '2017-11-16 22:31:08', TIMESTAMP_NTZ '2017-11-16 22:31:08', 10.65),
    (-1, -1, 'i', X'', DATE '1969-12-31', TIMESTAMP '1969-12-31 23:00:00', TIMESTAMP_NTZ '1969-12-31 23:00:00', -0.01),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);

-- 2017-11-16 has the hash -653330422, and that day at 22:31:08 the hash -2047944441; the sign is left out

SELECT {catalog}.system.bucket(100, i), {catalog}.system.bucket(100, l), {catalog}.system.bucket(100, s), {catalog}.system.bucket(100, b),
    {catalog}.system.bucket(100, d), {catalog}.system.bucket(100, ts), {catalog}.system.bucket(100, n) FROM t WHERE i = 34 OR i IS NULL;
--> 79 | 79 | 89 | 41 | 26 | 7 | 7
--> NULL | NULL | NULL | NULL | NULL | NULL | NULL

SELECT {catalog}.system.truncate(10, i), {catalog}.system.truncate(10, l), {catalog}.system.truncate(3, s), hex({catalog}.system.truncate(2, b)), {catalog}.system.truncate(50, c) FROM t ORDER BY i;
--> NULL | NULL | NULL | NULL | NULL
--> -10 | -10 | i |  | -0.50
--> 30 | 30 | ice | 0001 | 10.50

SELECT {catalog}.system.years(d), {catalog}.system.months(d), {catalog}.system.days(d) FROM t ORDER BY i;
--> NULL | NULL | NULL
--> -1 | -1 | 1969-12-31
--> 47 | 574 | 2017-11-16

SELECT {catalog}.system.years(ts), {catalog}.system.months(ts), {catalog}.system.days(ts), {catalog}.system.hours(ts) FROM t ORDER BY i;
--> NULL | NULL | NULL | NULL
--> -1 | -1 | 1969-12-31 | -1
--> 47 | 574 | 2017-11-16 | 419686

SELECT {catalog}.system.years(n), {catalog}.system.months(n), {catalog}.system.days(n), {catalog}.system.hours(n) FROM t ORDER BY i;
--> NULL | NULL | NULL | NULL
--> -1 | -1 | 1969-12-31 | -1
--> 47 | 574 | 2017-11-16 | 419686

SELECT s FROM t WHERE {catalog}.system.bucket(100, i) = 79;
--> iceberg

SELECT {catalog}.system.years(d) AS y, count(*) FROM t GROUP BY y ORDER BY y;
--> NULL | 1
--> -1 | 1
--> 47 | 1

SELECT i FROM t WHERE i IN (SELECT {catalog}.system.truncate(1, i) FROM t WHERE {catalog}.system.months(d) > 0);
--> 34

SELECT a.i FROM t a JOIN t b ON {catalog}.system.bucket(7, a.s) = {catalog}.system.bucket(7, b.s) AND a.i = b.i ORDER BY a.i;
--> -1
--> 34

SELECT {catalog}.system.floe_version() = {catalog}.system.iceberg_version();
--> true

SELECT {catalog}.system.nowhere(1);
--! UNRESOLVED_ROUTINE

SELECT nowhere(1);
--! UNRESOLVED_ROUTINE

SELECT {catalog}.system.bucket(1);
--! give it a number and a value

SELECT {catalog}.system.bucket('x', 1);
--! its first argument is an int

SELECT {catalog}.system.bucket(4, 1.5D);
--! it takes no double

SELECT {catalog}.system.hours(DATE '2017-11-16');
--! it takes no date

SHOW USER FUNCTIONS IN {catalog}.system LIKE 'bu*';
--> {catalog}.system.bucket

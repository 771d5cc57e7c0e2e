-- The catalog's functions. The hashes are those of the specification's appendix B.

SELECT {catalog}.system.bucket(2147483647, 34), {catalog}.system.bucket(2147483647, 34L);
--> 2017239379 | 2017239379

SELECT {catalog}.system.bucket(2147483647, 'iceberg'), {catalog}.system.bucket(2147483647, X'00010203');
--> 1210000089 | 1958800441

SELECT {catalog}.system.truncate(10, 1), {catalog}.system.truncate(10, -1), {catalog}.system.truncate(3, 'iceberg');
--> 0 | -10 | ice

SELECT {catalog}.system.truncate(50, CAST(10.65 AS DECIMAL(9, 2))), {catalog}.system.bucket(4, CAST(NULL AS INT));
--> 10.50 | NULL

-- each gives the type of what it is given, as Java's does

SELECT {catalog}.system.truncate(10, 1L), {catalog}.system.truncate(10, 5000000007L), hex({catalog}.system.truncate(2, X'000102'));
--> 0 | 5000000000 | 0001

SELECT typeof({catalog}.system.truncate(10, -11Y)), typeof({catalog}.system.truncate(10, -11S)), typeof({catalog}.system.truncate(10, 1L));
--> tinyint | smallint | bigint

SELECT {catalog}.system.truncate(10, -11Y), {catalog}.system.truncate(1000S, 11S), {catalog}.system.bucket(16Y, 34Y), {catalog}.system.bucket(16S, 34S);
--> -20 | 0 | 3 | 3

-- 14.20 has the hash -500754589

SELECT {catalog}.system.bucket(2147483647, 14.20BD), {catalog}.system.bucket(100, 14.20BD), {catalog}.system.bucket(100, 14.200BD);
--> 1646729059 | 59 | 29

SELECT {catalog}.system.truncate(2, {catalog}.system.truncate(4, 'iceberg')), {catalog}.system.bucket(100, lower('ICEBERG'));
--> ic | 89

SELECT {catalog}.system.truncate(10, CAST('12345678901234567890123456.78901234567' AS DECIMAL(38, 11)));
--> 12345678901234567890123456.78901234560

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

SELECT {catalog}.system.bucket(100, c), {catalog}.system.truncate(50, CAST(c AS DECIMAL(38, 2))), {catalog}.system.truncate(10, CAST(i AS SMALLINT)) FROM t ORDER BY i;
--> NULL | NULL | NULL
--> 97 | -0.50 | -10
--> 20 | 10.50 | 30

SELECT i FROM t WHERE {catalog}.system.bucket(100, c) = 20 AND {catalog}.system.truncate(2, {catalog}.system.truncate(4, s)) = 'ic';
--> 34

SELECT {catalog}.system.bucket(4, {catalog}.system.truncate(1, upper(s))) AS b, count(*) FROM t
    GROUP BY {catalog}.system.bucket(4, {catalog}.system.truncate(1, upper(s))) ORDER BY b;
--> NULL | 1
--> 2 | 2

MERGE INTO t USING (SELECT 34 AS i, 'ICEBERG' AS s) AS n
    ON {catalog}.system.bucket(16, upper(t.s)) = {catalog}.system.bucket(16, n.s) AND {catalog}.system.truncate(10, t.i) = {catalog}.system.truncate(10, n.i)
    WHEN MATCHED AND {catalog}.system.truncate(2, {catalog}.system.truncate(4, t.s)) = 'ic' THEN UPDATE SET l = {catalog}.system.bucket(100, lower(n.s));

SELECT i, l FROM t WHERE l IS NOT NULL ORDER BY i;
--> -1 | -1
--> 34 | 89

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

SELECT {catalog}.system.bucket(0, i) FROM t;
--! must be 1 to 2147483647, found 0

SELECT {catalog}.system.truncate(-1, 'x');
--! must be 1 to 2147483647, found -1

SELECT {catalog}.system.hours(DATE '2017-11-16');
--! it takes no date

SHOW USER FUNCTIONS IN {catalog}.system LIKE 'bu*';
--> {catalog}.system.bucket

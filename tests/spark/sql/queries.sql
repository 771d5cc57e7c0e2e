-- Queries over tables: what SQL says they mean.

CREATE TABLE orders (id INT, customer INT, day DATE, amount DECIMAL(8, 2), note STRING) PARTITIONED BY (months(day));

INSERT INTO orders VALUES
    (1, 10, DATE '2024-01-05', 10.00, 'first'), (2, 10, DATE '2024-01-20', 25.50, NULL),
    (3, 20, DATE '2024-02-01', 7.25, 'x'), (4, 30, DATE '2024-02-14', NULL, 'no amount'),
    (5, NULL, DATE '2024-03-01', 100.00, 'no customer');

CREATE TABLE customers (id INT, name STRING, city STRING);

INSERT INTO customers VALUES (10, 'Ann', 'Oslo'), (20, 'Bob', 'Rome'), (40, 'Cy', NULL);

SELECT o.id, c.name FROM orders o JOIN customers c ON o.customer = c.id ORDER BY o.id;
--> 1 | Ann
--> 2 | Ann
--> 3 | Bob

SELECT o.id, c.name FROM orders o LEFT JOIN customers c ON o.customer = c.id ORDER BY o.id;
--> 1 | Ann
--> 2 | Ann
--> 3 | Bob
--> 4 | NULL
--> 5 | NULL

SELECT o.id, c.name FROM orders o RIGHT JOIN customers c ON o.customer = c.id WHERE o.id IS NULL;
--> NULL | Cy

SELECT count(*) FROM orders o FULL JOIN customers c ON o.customer = c.id;
--> 6

SELECT count(*) FROM orders CROSS JOIN customers;
--> 15

SELECT id FROM orders o LEFT SEMI JOIN customers c ON o.customer = c.id ORDER BY id;
--> 1
--> 2
--> 3

SELECT id FROM orders o LEFT ANTI JOIN customers c ON o.customer = c.id ORDER BY id;
--> 4
--> 5

SELECT a.id, b.id FROM orders a JOIN orders b ON a.customer = b.customer AND a.id < b.id;
--> 1 | 2

SELECT customer, count(*), count(amount), sum(amount), avg(amount) FROM orders GROUP BY customer ORDER BY customer NULLS FIRST;
--> NULL | 1 | 1 | 100.00 | 100.000000
--> 10 | 2 | 2 | 35.50 | 17.750000
--> 20 | 1 | 1 | 7.25 | 7.250000
--> 30 | 1 | 0 | NULL | NULL

SELECT customer FROM orders GROUP BY customer HAVING sum(amount) > 30 ORDER BY customer NULLS FIRST;
--> NULL
--> 10

SELECT count(*), count(customer), count(DISTINCT customer), min(day), max(amount) FROM orders;
--> 5 | 4 | 3 | 2024-01-05 | 100.00

SELECT min(note), max(note) FROM orders;
--> first | x

SELECT month(day) AS m, sum(amount) FROM orders GROUP BY ROLLUP (m) ORDER BY m NULLS LAST;
--> 1 | 35.50
--> 2 | 7.25
--> 3 | 100.00
--> NULL | 142.75

SELECT id, row_number() OVER (PARTITION BY customer ORDER BY day DESC) FROM orders WHERE customer = 10 ORDER BY id;
--> 1 | 2
--> 2 | 1

SELECT id, sum(amount) OVER (ORDER BY id) FROM orders ORDER BY id;
--> 1 | 10.00
--> 2 | 35.50
--> 3 | 42.75
--> 4 | 42.75
--> 5 | 142.75

SELECT id, lag(id) OVER (ORDER BY id), first_value(note) OVER (PARTITION BY month(day) ORDER BY id) FROM orders ORDER BY id;
--> 1 | NULL | first
--> 2 | 1 | first
--> 3 | 2 | x
--> 4 | 3 | x
--> 5 | 4 | no customer

WITH big AS (SELECT * FROM orders WHERE amount > 9), named AS (SELECT b.id, c.name FROM big b JOIN customers c ON b.customer = c.id)
SELECT * FROM named ORDER BY id;
--> 1 | Ann
--> 2 | Ann

SELECT name FROM customers WHERE id IN (SELECT customer FROM orders) ORDER BY name;
--> Ann
--> Bob

-- a NULL among the values makes NOT IN true for nothing

SELECT name FROM customers WHERE id NOT IN (SELECT customer FROM orders);
--> nothing

SELECT name FROM customers c WHERE NOT EXISTS (SELECT 1 FROM orders o WHERE o.customer = c.id);
--> Cy

SELECT name, (SELECT max(amount) FROM orders o WHERE o.customer = c.id) FROM customers c ORDER BY name;
--> Ann | 25.50
--> Bob | 7.25
--> Cy | NULL

SELECT id FROM orders WHERE amount = (SELECT max(amount) FROM orders);
--> 5

SELECT id FROM orders UNION SELECT id FROM customers ORDER BY id LIMIT 3;
--> 1
--> 2
--> 3

SELECT customer FROM orders INTERSECT SELECT id FROM customers ORDER BY customer;
--> 10
--> 20

SELECT id FROM customers EXCEPT SELECT customer FROM orders;
--> 40

SELECT id FROM orders ORDER BY amount DESC NULLS LAST LIMIT 2;
--> 5
--> 2

SELECT id FROM orders ORDER BY id LIMIT 2 OFFSET 2;
--> 3
--> 4

SELECT * FROM (SELECT month(day) AS m, amount FROM orders) PIVOT (sum(amount) FOR m IN (1, 2, 3));
--> 35.50 | 7.25 | 100.00

SELECT c.name, o.id FROM customers c, LATERAL (SELECT id FROM orders WHERE customer = c.id ORDER BY id DESC LIMIT 1) o ORDER BY c.name;
--> Ann | 2
--> Bob | 3

-- what is true, false and unknown

SELECT id FROM orders WHERE amount > 0 ORDER BY id;
--> 1
--> 2
--> 3
--> 5

SELECT id FROM orders WHERE NOT (amount > 0);
--> nothing

SELECT id FROM orders WHERE amount IS NULL;
--> 4

SELECT id FROM orders WHERE amount <=> NULL;
--> 4

SELECT id FROM orders WHERE amount > 0 OR note = 'no amount' ORDER BY id;
--> 1
--> 2
--> 3
--> 4
--> 5

SELECT id FROM orders WHERE note NOT IN ('x', 'first') ORDER BY id;
--> 4
--> 5

SELECT id FROM orders WHERE note IN ('x', NULL);
--> 3

SELECT id FROM orders WHERE coalesce(note, 'none') = 'none';
--> 2

SELECT id FROM orders WHERE note LIKE 'no%' ORDER BY id;
--> 4
--> 5

SELECT id FROM orders WHERE note LIKE '%m_u%' ORDER BY id;
--> 4

SELECT id FROM orders WHERE day BETWEEN DATE '2024-01-20' AND DATE '2024-02-01' ORDER BY id;
--> 2
--> 3

SELECT id FROM orders WHERE day > DATE '2024-02-01' AND (amount IS NULL OR amount >= 100) ORDER BY id;
--> 4
--> 5

SELECT id FROM orders WHERE id % 2 = 0 AND customer IS NOT NULL ORDER BY id;
--> 2
--> 4

SELECT CASE WHEN amount IS NULL THEN 'none' WHEN amount < 20 THEN 'small' ELSE 'large' END AS size, count(*) FROM orders GROUP BY 1 ORDER BY 1;
--> large | 2
--> none | 1
--> small | 2

-- numbers that are none, and zeros with signs

CREATE TABLE floats (id INT, f FLOAT, d DOUBLE);

INSERT INTO floats VALUES (1, CAST('NaN' AS FLOAT), CAST('NaN' AS DOUBLE)), (2, -0.0, -0.0), (3, 0.0, 0.0),
    (4, CAST('Infinity' AS FLOAT), CAST('-Infinity' AS DOUBLE)), (5, NULL, NULL);

SELECT id FROM floats WHERE f = CAST('NaN' AS FLOAT);
--> 1

SELECT id FROM floats WHERE d > 0 ORDER BY id;
--> 1

SELECT id FROM floats WHERE f = 0 ORDER BY id;
--> 2
--> 3

SELECT id FROM floats WHERE d < 0;
--> 4

SELECT id FROM floats WHERE f <> 0 ORDER BY id;
--> 1
--> 4

SELECT max(f), min(d) FROM floats;
--> NaN | -Infinity

SELECT count(*) FROM floats WHERE isnan(d);
--> 1

-- nested values

CREATE TABLE nested (id INT, s STRUCT<a: INT, t: STRUCT<b: STRING>>, l ARRAY<INT>, m MAP<STRING, INT>, ls ARRAY<STRUCT<x: INT, y: STRING>>);

INSERT INTO nested VALUES
    (1, named_struct('a', 1, 't', named_struct('b', 'x')), array(1, 2, 3), map('k', 1, 'j', 2), array(named_struct('x', 1, 'y', 'p'), named_struct('x', 2, 'y', 'q'))),
    (2, named_struct('a', NULL, 't', NULL), array(), map(), array()),
    (3, NULL, NULL, NULL, NULL);

SELECT id, s.a, s.t.b FROM nested ORDER BY id;
--> 1 | 1 | x
--> 2 | NULL | NULL
--> 3 | NULL | NULL

SELECT id FROM nested WHERE s IS NULL;
--> 3

SELECT id FROM nested WHERE s.t IS NULL ORDER BY id;
--> 2
--> 3

SELECT id FROM nested WHERE s.t.b = 'x';
--> 1

SELECT id, e FROM nested LATERAL VIEW explode(l) AS e ORDER BY e;
--> 1 | 1
--> 1 | 2
--> 1 | 3

SELECT id, size(l), m['k'], map_keys(m) FROM nested WHERE id < 3 ORDER BY id;
--> 1 | 3 | 1 | [k, j]
--> 2 | 0 | NULL | []

SELECT id, e.y FROM nested LATERAL VIEW explode(ls) AS e WHERE e.x = 2;
--> 1 | q

SELECT transform(ls, e -> e.x * 10) FROM nested WHERE id = 1;
--> [10, 20]

SELECT id FROM nested WHERE array_contains(l, 2);
--> 1

SELECT count(*) FROM nested WHERE exists(ls, e -> e.y = 'p');
--> 1

SELECT s, l, m, ls FROM nested ORDER BY id;
--> {1, {x}} | [1, 2, 3] | {k -> 1, j -> 2} | [{1, p}, {2, q}]
--> {null, null} | [] | {} | []
--> NULL | NULL | NULL | NULL

CACHE TABLE customers;

SELECT count(*) FROM customers;
--> 3

INSERT INTO customers VALUES (50, 'Di', 'Bonn');

SELECT count(*) FROM customers;
--> 4

UNCACHE TABLE customers;

REFRESH TABLE customers;

SELECT count(*) FROM customers;
--> 4

ANALYZE TABLE customers COMPUTE STATISTICS;

ANALYZE TABLE customers COMPUTE STATISTICS NOSCAN;

ANALYZE TABLE customers COMPUTE STATISTICS FOR ALL COLUMNS;

EXPLAIN SELECT * FROM customers;

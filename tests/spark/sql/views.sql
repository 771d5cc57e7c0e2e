-- Views: made, read, changed, shown, dropped.

CREATE TABLE t (id INT, name STRING, amount DECIMAL(8, 2));

INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'a', 30), (4, NULL, NULL);

CREATE VIEW large AS SELECT id, amount FROM t WHERE amount > 10;

SELECT * FROM large ORDER BY id;
--> 2 | 20.00
--> 3 | 30.00

SELECT count(*) FROM {catalog}.{ns}.large;
--> 2

CREATE VIEW large AS SELECT 1 AS one;
--! already exists

CREATE VIEW IF NOT EXISTS large AS SELECT 1 AS one;

SELECT sum(amount) FROM large;
--> 50.00

CREATE VIEW by_name (who COMMENT 'the name', total) COMMENT 'sums' AS SELECT name, sum(amount) AS amount FROM t GROUP BY name;

SELECT who, total FROM by_name ORDER BY who NULLS FIRST;
--> NULL | NULL
--> a | 40.00
--> b | 20.00

DESCRIBE by_name;
--> who | string | the name
--> total | decimal(18,2) | NULL

CREATE VIEW of_view AS SELECT who FROM by_name WHERE total > 30;

SELECT * FROM of_view;
--> a

INSERT INTO t VALUES (5, 'b', 15);

SELECT * FROM of_view ORDER BY who;
--> a
--> b

CREATE VIEW joined AS
WITH big AS (SELECT * FROM large)
SELECT t.name, big.amount FROM t JOIN big ON t.id = big.id;

SELECT * FROM joined ORDER BY amount;
--> b | 15.00
--> b | 20.00
--> a | 30.00

CREATE OR REPLACE VIEW large AS SELECT id FROM t WHERE id >= 4;

SELECT * FROM large ORDER BY id;
--> 4
--> 5

SELECT * FROM joined;
--! UNRESOLVED_COLUMN

ALTER VIEW large AS SELECT id, name FROM t WHERE id = 1;

SELECT * FROM large;
--> 1 | a

ALTER VIEW large SET TBLPROPERTIES ('mine' = 'yes');

SHOW TBLPROPERTIES large ('mine');
--> mine | yes

ALTER VIEW large UNSET TBLPROPERTIES ('mine');

ALTER VIEW nowhere SET TBLPROPERTIES ('mine' = 'yes');
--! cannot be found

SHOW VIEWS;
--> {ns} | by_name | false
--> {ns} | joined | false
--> {ns} | large | false
--> {ns} | of_view | false

SHOW VIEWS IN {catalog}.{ns} LIKE 'l*|of*';
--> {ns} | large | false
--> {ns} | of_view | false

SELECT * FROM large AS l JOIN t USING (id);
--> 1 | a | a | 10.00

SELECT * FROM t WHERE id IN (SELECT id FROM large);
--> 1 | a | 10.00

INSERT INTO large VALUES (9, 'x');
--! large

CREATE VIEW t AS SELECT 1 AS one;
--! TABLE_OR_VIEW_ALREADY_EXISTS

CREATE TABLE large (id INT);
--! already exists

CREATE VIEW of_nothing AS SELECT * FROM nowhere;
--! TABLE_OR_VIEW_NOT_FOUND

CREATE TEMPORARY VIEW a_moment AS SELECT 1 AS one;

CREATE VIEW of_a_moment AS SELECT * FROM a_moment;
--! INVALID_TEMP_OBJ_REFERENCE

DROP VIEW a_moment;

CREATE VIEW too_few (a) AS SELECT id, name FROM t;
--! CREATE_VIEW_COLUMN_ARITY_MISMATCH

CREATE VIEW time_travel AS SELECT count(*) AS n FROM {ns}.t.snapshots;

SELECT n FROM time_travel;
--> 2

-- a column that is dropped below a view is told; one that is added does no harm

ALTER TABLE t ADD COLUMN more INT;

SELECT * FROM large;
--> 1 | a

ALTER TABLE t RENAME COLUMN name TO label;

SELECT * FROM large;
--! UNRESOLVED_COLUMN

DROP VIEW large;

DROP VIEW large;
--! VIEW_NOT_FOUND

DROP VIEW IF EXISTS large;

DROP VIEW t;
--! view

SELECT * FROM large;
--! TABLE_OR_VIEW_NOT_FOUND

--@ sq
ALTER VIEW time_travel RENAME TO {ns}.renamed;

--@ sq
SHOW VIEWS LIKE 'renamed';
--> {ns} | renamed | false

--@ lake
ALTER VIEW time_travel RENAME TO {ns}.renamed;
--! cannot be renamed

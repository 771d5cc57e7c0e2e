-- ALTER TABLE: columns, properties, what is shown afterwards.

CREATE TABLE t (id INT, name STRING);

INSERT INTO t VALUES (1, 'one'), (2, 'two');

ALTER TABLE t ADD COLUMN amount DECIMAL(10, 2);

SELECT * FROM t ORDER BY id;
--> 1 | one | NULL
--> 2 | two | NULL

ALTER TABLE t ADD COLUMNS (flag BOOLEAN COMMENT 'yes or no', score DOUBLE);

SHOW COLUMNS IN t;
--> id
--> name
--> amount
--> flag
--> score

ALTER TABLE t ADD COLUMN first_of_all INT FIRST;

ALTER TABLE t ADD COLUMN after_id INT AFTER id;

SELECT * FROM t WHERE id = 1;
--> NULL | 1 | NULL | one | NULL | NULL | NULL

ALTER TABLE t ADD COLUMN name STRING;
--! FIELD_ALREADY_EXISTS

ALTER TABLE t ADD COLUMN NAME STRING;
--! FIELD_ALREADY_EXISTS

ALTER TABLE t RENAME COLUMN name TO label;

SELECT label FROM t ORDER BY id;
--> one
--> two

SELECT name FROM t;
--! UNRESOLVED_COLUMN

ALTER TABLE t RENAME COLUMN nowhere TO somewhere;
--! UNRESOLVED_COLUMN

ALTER TABLE t RENAME COLUMN label TO id;
--! FIELD_ALREADY_EXISTS

ALTER TABLE t DROP COLUMN after_id;

ALTER TABLE t DROP COLUMNS (first_of_all, flag);

ALTER TABLE t DROP COLUMN nowhere;
--! UNRESOLVED_COLUMN

ALTER TABLE t DROP COLUMN IF EXISTS nowhere;

SELECT * FROM t ORDER BY id;
--> 1 | one | NULL | NULL
--> 2 | two | NULL | NULL

ALTER TABLE t ALTER COLUMN id TYPE BIGINT;

INSERT INTO t VALUES (3000000000, 'large', 1.50, 0.5);

SELECT id, amount FROM t ORDER BY id;
--> 1 | NULL
--> 2 | NULL
--> 3000000000 | 1.50

ALTER TABLE t ALTER COLUMN amount TYPE DECIMAL(14, 2);

ALTER TABLE t ALTER COLUMN amount TYPE DECIMAL(14, 4);
--! NOT_SUPPORTED_CHANGE_COLUMN

ALTER TABLE t ALTER COLUMN id TYPE INT;
--! NOT_SUPPORTED_CHANGE_COLUMN

ALTER TABLE t ALTER COLUMN label COMMENT 'what it is called';

DESCRIBE t;
--> id | bigint | NULL
--> label | string | what it is called
--> amount | decimal(14,2) | NULL
--> score | double | NULL

ALTER TABLE t ALTER COLUMN score FIRST;

ALTER TABLE t ALTER COLUMN label AFTER amount;

SELECT * FROM t WHERE id = 3000000000;
--> 0.5 | 3000000000 | 1.50 | large

ALTER TABLE t ALTER COLUMN label AFTER nowhere;
--! nowhere

ALTER TABLE t ALTER COLUMN label SET NOT NULL;
--! label

CREATE TABLE strict (id INT NOT NULL, name STRING);

ALTER TABLE strict ALTER COLUMN id DROP NOT NULL;

INSERT INTO strict VALUES (NULL, NULL);

SELECT * FROM strict;
--> NULL | NULL

-- within structs, lists and maps

CREATE TABLE deep (id INT, s STRUCT<a: INT, b: STRING>, l ARRAY<STRUCT<x: INT>>, m MAP<STRING, STRUCT<v: INT>>);

INSERT INTO deep VALUES (1, named_struct('a', 1, 'b', 'b'), array(named_struct('x', 1)), map('k', named_struct('v', 1)));

ALTER TABLE deep ADD COLUMN s.c DOUBLE AFTER a;

ALTER TABLE deep ADD COLUMN l.element.y STRING;

ALTER TABLE deep ADD COLUMN m.value.w INT FIRST;

SELECT s, l, m FROM deep;
--> {1, null, b} | [{1, null}] | {k -> {null, 1}}

ALTER TABLE deep RENAME COLUMN s.a TO first;

ALTER TABLE deep ALTER COLUMN l.element.x TYPE BIGINT;

ALTER TABLE deep DROP COLUMN s.b;

INSERT INTO deep VALUES (2, named_struct('first', 2, 'c', 2.5), array(named_struct('x', 4000000000, 'y', 'y')), map('k', named_struct('w', 5, 'v', 6)));

SELECT s.first, s.c, l[0].x, l[0].y, m['k'].w, m['k'].v FROM deep ORDER BY id;
--> 1 | NULL | 1 | NULL | NULL | 1
--> 2 | 2.5 | 4000000000 | y | 5 | 6

SELECT s.b FROM deep;
--! FIELD_NOT_FOUND

ALTER TABLE deep DROP COLUMN s.nowhere;
--! UNRESOLVED_COLUMN

-- properties

ALTER TABLE t SET TBLPROPERTIES ('a' = '1', 'b' = '2');

SHOW TBLPROPERTIES t ('a');
--> a | 1

ALTER TABLE t UNSET TBLPROPERTIES ('a');

SHOW TBLPROPERTIES t ('b');
--> b | 2

ALTER TABLE t UNSET TBLPROPERTIES IF EXISTS ('nowhere');

--@ v1
ALTER TABLE t SET TBLPROPERTIES ('format-version' = '2');

--@ v1 v2
SHOW TBLPROPERTIES t ('format-version');
--> format-version | 2

ALTER TABLE t SET TBLPROPERTIES ('format-version' = '1');
--! cannot

ALTER TABLE nowhere SET TBLPROPERTIES ('a' = '1');
--! TABLE_OR_VIEW_NOT_FOUND

-- order, distribution, identifier fields

ALTER TABLE deep WRITE ORDERED BY id DESC, s.first;

SHOW TBLPROPERTIES deep ('sort-order');
--> sort-order | id DESC NULLS LAST, s.first ASC NULLS FIRST

ALTER TABLE deep WRITE UNORDERED;

SHOW TBLPROPERTIES deep ('write.distribution-mode');
--> write.distribution-mode | none

CREATE TABLE keyed (id INT NOT NULL, name STRING);

ALTER TABLE keyed SET IDENTIFIER FIELDS id;

SHOW TBLPROPERTIES keyed ('identifier-fields');
--> identifier-fields | [id]

ALTER TABLE keyed SET IDENTIFIER FIELDS name;
--! name

ALTER TABLE keyed DROP COLUMN id;
--! id

ALTER TABLE keyed DROP IDENTIFIER FIELDS id;

ALTER TABLE keyed DROP COLUMN id;

SHOW COLUMNS IN keyed;
--> name

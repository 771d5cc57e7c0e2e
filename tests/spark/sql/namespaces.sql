-- Namespaces: made, nested, listed, described, changed, dropped.

CREATE NAMESPACE {catalog}.{ns}.inner;

CREATE NAMESPACE {catalog}.{ns}.inner;
--! SCHEMA_ALREADY_EXISTS

CREATE NAMESPACE IF NOT EXISTS {catalog}.{ns}.inner;

CREATE NAMESPACE {catalog}.{ns}.inner.deep;

CREATE SCHEMA {catalog}.{ns}.other;

SHOW NAMESPACES IN {catalog}.{ns};
--> {ns}.inner
--> {ns}.other

SHOW NAMESPACES IN {catalog}.{ns}.inner;
--> {ns}.inner.deep

SHOW SCHEMAS IN {catalog}.{ns} LIKE '*oth*';
--> {ns}.other

SHOW NAMESPACES IN {catalog}.{ns}.other;
--> nothing

DROP NAMESPACE {catalog}.{ns}.inner;
--! SCHEMA_NOT_EMPTY

DROP NAMESPACE {catalog}.{ns}.inner.deep;

DROP NAMESPACE {catalog}.{ns}.inner.deep;
--! SCHEMA_NOT_FOUND

DROP NAMESPACE IF EXISTS {catalog}.{ns}.inner.deep;

CREATE TABLE {catalog}.{ns}.inner.t (id INT);

SHOW TABLES IN {catalog}.{ns}.inner;
--> {ns}.inner | t | false

DROP NAMESPACE {catalog}.{ns}.inner;
--! SCHEMA_NOT_EMPTY

USE {catalog}.{ns}.inner;

INSERT INTO t VALUES (1);

SELECT * FROM t;
--> 1

SELECT current_catalog(), current_schema();
--> {catalog} | {ns}.inner

USE {catalog}.{ns};

DROP NAMESPACE {catalog}.{ns}.inner;
--! SCHEMA_NOT_EMPTY

DROP NAMESPACE {catalog}.{ns}.inner CASCADE;

SHOW NAMESPACES IN {catalog}.{ns};
--> {ns}.other

SELECT * FROM {catalog}.{ns}.inner.t;
--! TABLE_OR_VIEW_NOT_FOUND

CREATE NAMESPACE {catalog}.{ns}.described COMMENT 'for tests' WITH PROPERTIES ('a' = '1');

DESCRIBE NAMESPACE {catalog}.{ns}.nowhere;
--! SCHEMA_NOT_FOUND

ALTER NAMESPACE {catalog}.{ns}.described SET PROPERTIES ('b' = '2');

ALTER NAMESPACE {catalog}.{ns}.described SET PROPERTIES ('a' = '3');

ALTER NAMESPACE {catalog}.{ns}.nowhere SET PROPERTIES ('a' = '3');
--! SCHEMA_NOT_FOUND

--@ sq
CREATE TABLE {catalog}.{ns}.nowhere.t (id INT);
--! make it first: CREATE NAMESPACE

SHOW TABLES IN {catalog}.{ns}.nowhere;
--! SCHEMA_NOT_FOUND

--@ lake
CREATE NAMESPACE {catalog}.{ns}.`with.dot`;

--@ lake
CREATE TABLE {catalog}.{ns}.`with.dot`.`a table` (`a column` INT, `b.c` INT);

--@ lake
INSERT INTO {catalog}.{ns}.`with.dot`.`a table` VALUES (1, 2);

--@ lake
SELECT `a column`, `b.c` FROM {catalog}.{ns}.`with.dot`.`a table`;
--> 1 | 2

--@ lake
DROP TABLE {catalog}.{ns}.`with.dot`.`a table`;

--@ lake
DROP NAMESPACE {catalog}.{ns}.`with.dot`;

"""Twenty-two questions about the tables of `helpers.tpch`, like those of TPC-H; every order is told to its end."""

QUERIES = {
    1: """
        SELECT l_returnflag, l_linestatus, sum(l_quantity), sum(l_extendedprice), avg(l_quantity), avg(l_discount),
               sum(l_extendedprice * (1 - l_discount)), sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)), count(*)
        FROM lineitem WHERE l_shipdate <= DATE'1998-12-01' - INTERVAL '90' DAY
        GROUP BY l_returnflag, l_linestatus ORDER BY l_returnflag, l_linestatus""",
    2: """
        WITH offers AS (
          SELECT * FROM partsupp JOIN supplier ON s_suppkey = ps_suppkey JOIN nation ON n_nationkey = s_nationkey
          JOIN region ON r_regionkey = n_regionkey WHERE r_name = 'EUROPE')
        SELECT s_acctbal, s_name, n_name, p_partkey, p_mfgr, s_phone FROM part JOIN offers ON p_partkey = ps_partkey
        WHERE p_size IN (5, 15, 25) AND p_type LIKE '%BRASS'
          AND ps_supplycost = (SELECT min(o.ps_supplycost) FROM offers o WHERE o.ps_partkey = p_partkey)
        ORDER BY s_acctbal DESC, n_name, s_name, p_partkey LIMIT 100""",
    3: """
        SELECT l_orderkey, sum(l_extendedprice * (1 - l_discount)) AS revenue, o_orderdate, o_shippriority
        FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey
        WHERE c_mktsegment = 'BUILDING' AND o_orderdate < DATE'1995-03-15' AND l_shipdate > DATE'1995-03-15'
        GROUP BY l_orderkey, o_orderdate, o_shippriority ORDER BY revenue DESC, o_orderdate, l_orderkey LIMIT 10""",
    4: """
        SELECT o_orderpriority, count(*) FROM orders
        WHERE o_orderdate >= DATE'1993-07-01' AND o_orderdate < DATE'1993-10-01'
          AND EXISTS (SELECT 1 FROM lineitem WHERE l_orderkey = o_orderkey AND l_commitdate < l_receiptdate)
        GROUP BY o_orderpriority ORDER BY o_orderpriority""",
    5: """
        SELECT n_name, sum(l_extendedprice * (1 - l_discount)) AS revenue
        FROM region JOIN nation ON n_regionkey = r_regionkey JOIN supplier ON s_nationkey = n_nationkey
        JOIN lineitem ON l_suppkey = s_suppkey JOIN orders ON o_orderkey = l_orderkey
        JOIN customer ON c_custkey = o_custkey AND c_nationkey = s_nationkey
        WHERE r_name = 'ASIA' AND o_orderdate >= DATE'1994-01-01' AND o_orderdate < DATE'1995-01-01'
        GROUP BY n_name ORDER BY revenue DESC, n_name""",
    6: """
        SELECT sum(l_extendedprice * l_discount) FROM lineitem
        WHERE l_shipdate >= DATE'1994-01-01' AND l_shipdate < DATE'1995-01-01'
          AND l_discount BETWEEN 0.05 AND 0.07 AND l_quantity < 24""",
    7: """
        SELECT a.n_name, b.n_name, year(l_shipdate) AS y, sum(l_extendedprice * (1 - l_discount))
        FROM supplier JOIN lineitem ON s_suppkey = l_suppkey JOIN orders ON o_orderkey = l_orderkey
        JOIN customer ON c_custkey = o_custkey JOIN nation a ON a.n_nationkey = s_nationkey
        JOIN nation b ON b.n_nationkey = c_nationkey
        WHERE (a.n_name, b.n_name) IN (('FRANCE', 'GERMANY'), ('GERMANY', 'FRANCE'))
          AND l_shipdate BETWEEN DATE'1995-01-01' AND DATE'1996-12-31'
        GROUP BY a.n_name, b.n_name, year(l_shipdate) ORDER BY a.n_name, b.n_name, y""",
    8: """
        SELECT year(o_orderdate) AS y,
               sum(CASE WHEN n.n_name = 'BRAZIL' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
                 / sum(l_extendedprice * (1 - l_discount))
        FROM part JOIN lineitem ON p_partkey = l_partkey JOIN supplier ON s_suppkey = l_suppkey
        JOIN orders ON o_orderkey = l_orderkey JOIN customer ON c_custkey = o_custkey
        JOIN nation home ON home.n_nationkey = c_nationkey JOIN region ON r_regionkey = home.n_regionkey
        JOIN nation n ON n.n_nationkey = s_nationkey
        WHERE r_name = 'AMERICA' AND o_orderdate BETWEEN DATE'1995-01-01' AND DATE'1996-12-31'
          AND p_type = 'ECONOMY ANODIZED STEEL'
        GROUP BY year(o_orderdate) ORDER BY y""",
    9: """
        SELECT n_name, year(o_orderdate) AS y,
               sum(l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity) AS profit
        FROM part JOIN lineitem ON p_partkey = l_partkey JOIN supplier ON s_suppkey = l_suppkey
        JOIN partsupp ON ps_partkey = l_partkey AND ps_suppkey = l_suppkey JOIN orders ON o_orderkey = l_orderkey
        JOIN nation ON n_nationkey = s_nationkey
        WHERE p_name LIKE '%green%' GROUP BY n_name, year(o_orderdate) ORDER BY n_name, y DESC""",
    10: """
        SELECT c_custkey, c_name, sum(l_extendedprice * (1 - l_discount)) AS revenue, c_acctbal, n_name, c_phone
        FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey
        JOIN nation ON n_nationkey = c_nationkey
        WHERE o_orderdate >= DATE'1993-10-01' AND o_orderdate < DATE'1994-01-01' AND l_returnflag = 'R'
        GROUP BY c_custkey, c_name, c_acctbal, c_phone, n_name ORDER BY revenue DESC, c_custkey LIMIT 20""",
    11: """
        WITH stock AS (
          SELECT ps_partkey, sum(ps_supplycost * ps_availqty) AS value FROM partsupp
          JOIN supplier ON s_suppkey = ps_suppkey JOIN nation ON n_nationkey = s_nationkey
          WHERE n_name = 'GERMANY' GROUP BY ps_partkey)
        SELECT * FROM stock WHERE value > (SELECT sum(value) * 0.001 FROM stock) ORDER BY value DESC, ps_partkey""",
    12: """
        SELECT l_shipmode, count_if(o_orderpriority IN ('1-URGENT', '2-HIGH')),
               count_if(o_orderpriority NOT IN ('1-URGENT', '2-HIGH'))
        FROM orders JOIN lineitem ON l_orderkey = o_orderkey
        WHERE l_shipmode IN ('MAIL', 'SHIP') AND l_commitdate < l_receiptdate AND l_shipdate < l_commitdate
          AND l_receiptdate >= DATE'1994-01-01' AND l_receiptdate < DATE'1995-01-01'
        GROUP BY l_shipmode ORDER BY l_shipmode""",
    13: """
        SELECT orders_made, count(*) AS customers FROM (
          SELECT c_custkey, count(o_orderkey) AS orders_made FROM customer
          LEFT JOIN orders ON c_custkey = o_custkey AND o_comment NOT LIKE '%special%requests%' GROUP BY c_custkey)
        GROUP BY orders_made ORDER BY customers DESC, orders_made DESC""",
    14: """
        SELECT 100.00 * sum(CASE WHEN p_type LIKE 'PROMO%' THEN l_extendedprice * (1 - l_discount) ELSE 0 END)
                 / sum(l_extendedprice * (1 - l_discount))
        FROM lineitem JOIN part ON p_partkey = l_partkey
        WHERE l_shipdate >= DATE'1995-09-01' AND l_shipdate < DATE'1995-10-01'""",
    15: """
        WITH revenue AS (
          SELECT l_suppkey, sum(l_extendedprice * (1 - l_discount)) AS total FROM lineitem
          WHERE l_shipdate >= DATE'1996-01-01' AND l_shipdate < DATE'1996-04-01' GROUP BY l_suppkey)
        SELECT s_suppkey, s_name, s_address, s_phone, total FROM supplier JOIN revenue ON l_suppkey = s_suppkey
        WHERE total = (SELECT max(total) FROM revenue) ORDER BY s_suppkey""",
    16: """
        SELECT p_brand, p_type, p_size, count(DISTINCT ps_suppkey) AS suppliers FROM partsupp
        JOIN part ON p_partkey = ps_partkey
        WHERE p_brand <> 'Brand#45' AND p_type NOT LIKE 'MEDIUM POLISHED%' AND p_size IN (3, 9, 14, 19, 23, 36, 45, 49)
          AND ps_suppkey NOT IN (SELECT s_suppkey FROM supplier WHERE s_comment LIKE '%Customer%Complaints%')
        GROUP BY p_brand, p_type, p_size ORDER BY suppliers DESC, p_brand, p_type, p_size""",
    17: """
        SELECT sum(l_extendedprice) / 7.0 FROM lineitem JOIN part ON p_partkey = l_partkey
        WHERE p_brand = 'Brand#23' AND p_container LIKE 'MED B%'
          AND l_quantity < (SELECT 0.4 * avg(i.l_quantity) FROM lineitem i WHERE i.l_partkey = p_partkey)""",
    18: """
        SELECT c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity)
        FROM customer JOIN orders ON c_custkey = o_custkey JOIN lineitem ON l_orderkey = o_orderkey
        WHERE o_orderkey IN (SELECT l_orderkey FROM lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 250)
        GROUP BY c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
        ORDER BY o_totalprice DESC, o_orderdate, o_orderkey LIMIT 100""",
    19: """
        SELECT sum(l_extendedprice * (1 - l_discount)) FROM lineitem JOIN part ON p_partkey = l_partkey
        WHERE l_shipmode IN ('AIR', 'REG AIR') AND l_shipinstruct = 'DELIVER IN PERSON' AND (
          (p_brand = 'Brand#12' AND p_container LIKE 'SM %' AND l_quantity BETWEEN 1 AND 11 AND p_size <= 5)
          OR (p_brand = 'Brand#23' AND p_container LIKE 'MED %' AND l_quantity BETWEEN 10 AND 20 AND p_size <= 10)
          OR (p_brand = 'Brand#34' AND p_container LIKE 'LG %' AND l_quantity BETWEEN 20 AND 30 AND p_size <= 15))""",
    20: """
        SELECT s_name, s_address FROM supplier JOIN nation ON n_nationkey = s_nationkey
        WHERE n_name = 'CANADA' AND s_suppkey IN (
          SELECT ps_suppkey FROM partsupp
          WHERE ps_partkey IN (SELECT p_partkey FROM part WHERE p_name LIKE 'forest%')
            AND ps_availqty > (SELECT 0.5 * sum(l_quantity) FROM lineitem
                               WHERE l_partkey = ps_partkey AND l_suppkey = ps_suppkey
                                 AND l_shipdate >= DATE'1994-01-01' AND l_shipdate < DATE'1995-01-01'))
        ORDER BY s_name""",
    21: """
        SELECT s_name, count(*) AS waits FROM supplier JOIN lineitem late ON s_suppkey = late.l_suppkey
        JOIN orders ON o_orderkey = late.l_orderkey JOIN nation ON n_nationkey = s_nationkey
        WHERE n_name = 'SAUDI ARABIA' AND o_orderstatus = 'F' AND late.l_receiptdate > late.l_commitdate
          AND EXISTS (SELECT 1 FROM lineitem o WHERE o.l_orderkey = late.l_orderkey AND o.l_suppkey <> late.l_suppkey)
          AND NOT EXISTS (SELECT 1 FROM lineitem o WHERE o.l_orderkey = late.l_orderkey
                            AND o.l_suppkey <> late.l_suppkey AND o.l_receiptdate > o.l_commitdate)
        GROUP BY s_name ORDER BY waits DESC, s_name LIMIT 100""",
    22: """
        WITH known AS (
          SELECT substring(c_phone, 1, 2) AS code, c_acctbal, c_custkey FROM customer
          WHERE substring(c_phone, 1, 2) IN ('13', '31', '23', '29', '30', '18', '17'))
        SELECT code, count(*), sum(c_acctbal) FROM known
        WHERE c_acctbal > (SELECT avg(c_acctbal) FROM known WHERE c_acctbal > 0)
          AND NOT EXISTS (SELECT 1 FROM orders WHERE o_custkey = c_custkey)
        GROUP BY code ORDER BY code""",
}
"""By their numbers."""

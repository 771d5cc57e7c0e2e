"""The names on Iceberg's pages of configuration (Configuration, Catalog properties, Spark configuration; 1.11).

`*` stands for the name of a column, a property or a key.
"""


def _names(text: str) -> list[str]:
    return text.split()


TABLE_PROPERTIES = _names("""
read.split.target-size read.split.metadata-target-size read.split.planning-lookback read.split.open-file-cost
read.split.adaptive-size.enabled read.parquet.vectorization.enabled read.parquet.vectorization.batch-size
read.orc.vectorization.enabled read.orc.vectorization.batch-size read.data-planning-mode read.delete-planning-mode
write.format.default write.delete.format.default write.parquet.row-group-size-bytes
write.parquet.row-group-size-track-uncompressed write.parquet.page-size-bytes write.parquet.page-version
write.parquet.page-row-limit write.parquet.dict-size-bytes write.parquet.compression-codec
write.parquet.compression-level write.parquet.shred-variants write.parquet.variant-inference-buffer-size
write.parquet.bloom-filter-enabled.column.* write.parquet.bloom-filter-max-bytes
write.parquet.bloom-filter-fpp.column.* write.parquet.bloom-filter-ndv.column.*
write.parquet.bloom-filter-adaptive-enabled write.parquet.stats-enabled.column.*
write.parquet.dict-encoding-enabled.column.* write.avro.compression-codec write.avro.compression-level
write.orc.stripe-size-bytes write.orc.block-size-bytes write.orc.compression-codec write.orc.compression-strategy
write.orc.bloom.filter.columns write.orc.bloom.filter.fpp write.location-provider.impl
write.metadata.compression-codec write.metadata.metrics.max-inferred-column-defaults write.metadata.metrics.default
write.metadata.metrics.column.* write.target-file-size-bytes write.delete.target-file-size-bytes
write.distribution-mode write.delete.distribution-mode write.update.distribution-mode write.merge.distribution-mode
write.wap.enabled write.summary.partition-limit write.metadata.delete-after-commit.enabled
write.metadata.previous-versions-max write.spark.fanout.enabled write.object-storage.enabled
write.object-storage.partitioned-paths write.data.path write.metadata.path write.delete.mode
write.delete.isolation-level write.update.mode write.update.isolation-level write.merge.mode
write.merge.isolation-level write.delete.granularity encryption.key-id encryption.data-key-length
commit.retry.num-retries commit.retry.min-wait-ms commit.retry.max-wait-ms commit.retry.total-timeout-ms
commit.status-check.num-retries commit.status-check.min-wait-ms commit.status-check.max-wait-ms
commit.status-check.total-timeout-ms commit.manifest.target-size-bytes commit.manifest.min-count-to-merge
commit.manifest-merge.enabled history.expire.max-snapshot-age-ms history.expire.min-snapshots-to-keep
history.expire.max-ref-age-ms gc.enabled format-version comment compatibility.snapshot-id-inheritance.enabled
""")
"""Of tables: to read, to write, of encryption and behaviour, reserved, for information and compatibility."""

CATALOG_SETTINGS = _names("""
catalog-impl io-impl warehouse uri clients cache-enabled cache.expiration-interval-ms metrics-reporter-impl
unique-table-location encryption.kms-impl snapshot-loading-mode rest-metrics-reporting-enabled
view-endpoints-supported rest-page-size namespace-separator scan-planning-mode
rest-table-cache.expire-after-write-ms rest-table-cache.max-entries rest.auth.type rest.auth.basic.username
rest.auth.basic.password rest.auth.sigv4.delegate-auth-type token credential oauth2-server-uri token-expires-in-ms
token-refresh-enabled token-exchange-enabled scope audience resource rest.signing-region rest.signing-name
rest.access-key-id rest.secret-access-key rest.session-token client.credentials-provider client.assume-role.arn
client.assume-role.region client.assume-role.external-id client.assume-role.timeout-sec gcp.auth.credentials-path
gcp.auth.credentials-json gcp.auth.scopes lock-impl lock.table lock.acquire-interval-ms lock.acquire-timeout-ms
lock.heartbeat-interval-ms lock.heartbeat-timeout-ms type default-namespace table-default.* table-override.*
view-default.* view-override.* use-nullable-query-schema
""")
"""Of catalogs: common ones, those of REST and of locks, and Spark's, by what follows `spark.sql.catalog.<name>.`"""

HADOOP_SETTINGS = _names("""
iceberg.hive.client-pool-size iceberg.hive.lock-creation-timeout-ms iceberg.hive.lock-creation-min-wait-ms
iceberg.hive.lock-creation-max-wait-ms iceberg.hive.lock-timeout-ms iceberg.hive.lock-check-min-wait-ms
iceberg.hive.lock-check-max-wait-ms iceberg.hive.lock-heartbeat-interval-ms
iceberg.hive.metadata-refresh-max-retries iceberg.hive.table-level-lock-evict-ms iceberg.engine.hive.lock-enabled
iceberg.tables.hadoop.lock-impl iceberg.tables.hadoop.lock.table
""")
"""Of Hadoop."""

SESSION_SETTINGS = _names("""
spark.sql.iceberg.vectorization.enabled spark.sql.iceberg.check-nullability spark.sql.iceberg.check-ordering
spark.sql.iceberg.planning.preserve-data-grouping spark.sql.iceberg.aggregate-push-down.enabled
spark.sql.iceberg.distribution-mode spark.wap.id spark.wap.branch spark.sql.iceberg.shred-variants
spark.sql.iceberg.variant-inference-buffer-size spark.sql.iceberg.compression-codec
spark.sql.iceberg.compression-level spark.sql.iceberg.compression-strategy spark.sql.iceberg.data-planning-mode
spark.sql.iceberg.delete-planning-mode spark.sql.iceberg.advisory-partition-size spark.sql.iceberg.read.split-size
spark.sql.iceberg.locality.enabled spark.sql.iceberg.executor-cache.enabled spark.sql.iceberg.executor-cache.timeout
spark.sql.iceberg.executor-cache.max-entry-size spark.sql.iceberg.executor-cache.max-total-size
spark.sql.iceberg.executor-cache.locality.enabled spark.sql.iceberg.merge-schema
spark.sql.iceberg.report-column-stats spark.sql.iceberg.read.adaptive-split-size.enabled
spark.sql.iceberg.read.adaptive-split-size.parallelism spark.sql.iceberg.async-micro-batch-planning-enabled
""")
"""Of sessions."""

READ_OPTIONS = _names("""
snapshot-id as-of-timestamp split-size lookback file-open-cost vectorization-enabled batch-size
stream-from-timestamp streaming-max-files-per-micro-batch streaming-max-rows-per-micro-batch
async-micro-batch-planning-enabled streaming-snapshot-polling-interval-ms async-queue-preload-file-limit
async-queue-preload-row-limit
""")
"""Of reads."""

WRITE_OPTIONS = _names("""
write-format target-file-size-bytes check-nullability snapshot-property.* fanout-enabled check-ordering
isolation-level validate-from-snapshot-id compression-codec compression-level compression-strategy distribution-mode
delete-granularity shred-variants variant-inference-buffer-size use-merge-append-for-streaming
""")
"""Of writes."""

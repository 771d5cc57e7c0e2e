"""The file formats of tables: Parquet, ORC and Avro, and Arrow, through which their columns go."""

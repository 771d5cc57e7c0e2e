"""Table columns as Arrow arrays: what the readers and writers of all file formats share.

In reading order:

- `arrow_types`: types and schemas as Arrow's, and back.
- `arrays`: column values as Arrow arrays, and Arrow arrays as NumPy arrays.
- `filters`: filters evaluated on Arrow data.
- `transforms`: partition transforms and hashes of Arrow columns.
- `file_columns`: the columns of a file, matched with those of a table, and the selection of those to read.
- `variants`: variants decoded, and assembled from shredded columns.
- `conversion`: stored arrays converted to the types of a table, and input batches to those of a file.
- `projection`: batches of a file turned into the rows and columns that a read requests.
"""

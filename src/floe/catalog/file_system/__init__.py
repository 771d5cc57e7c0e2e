"""The file-system catalog, in the layout of Java's HadoopCatalog: folders are namespaces, files are table versions.

| module | what it has |
|---|---|
| `versions` | the version files and the version hint in a table's metadata folder |
| `pointer` | `FileSystemPointer`: commits by exclusive creation of the next version file |
| `views` | the version files of views |
| `namespaces` | folders as namespaces, and the file with their properties |
| `catalog` | `FileSystemCatalog`: the catalog itself, and dropping tables |
| `folder_table` | tables opened by their location, without a catalog |
"""

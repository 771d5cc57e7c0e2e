"""Files: one small protocol, its implementations, and the gate that keeps reading within allowed roots and sizes.

Storages are stacked, from the outside in:

```
PrefixMap        recorded locations -> where the files are now        (prefix_map)
  Access         allowed roots and size limits, on real locations     (access)
    Routed       each scheme to its storage                           (routing)
      Retrying   what may be repeated is repeated; a swap never        (retries)
        Local / Object / Fsspec / Memory                              (local, object_stores, fsspec_files, memory)
```

`open_storage` (opening) finds the innermost ones by location; the protocol and its promises are in `protocol`.
"""

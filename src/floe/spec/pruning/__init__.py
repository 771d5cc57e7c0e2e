"""What a filter says about partitions, manifests and files, one by one or many at once."""

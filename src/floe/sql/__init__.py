"""SQL text: tokens, type names, literals, filters, values, column definitions, partition and sort terms."""

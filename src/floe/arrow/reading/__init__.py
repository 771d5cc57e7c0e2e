"""Plans turned into rows: files read with their deletes applied, many at once, in order and in bounded memory."""

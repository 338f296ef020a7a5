"""Reading a graph at one commit: queries, SQL, results. Knows nothing of how tables are written."""

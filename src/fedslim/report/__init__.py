"""Reports: turn run records into a view, and a view into an HTML page. Everything shown comes from the records."""

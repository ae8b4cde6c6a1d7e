"""Pages of the web as text: how they are fetched, decoded and converted."""

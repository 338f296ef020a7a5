"""Examples that run: each folder is a small project of its own."""

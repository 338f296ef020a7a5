"""Songs: from audio metadata to features to a graph that answers questions."""

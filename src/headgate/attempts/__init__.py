"""Running one attempt, from input ref to published ref: the lifecycle, the local workspace, its garbage collection."""

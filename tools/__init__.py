"""What people and CI run beside the product: real servers, generators, checks."""

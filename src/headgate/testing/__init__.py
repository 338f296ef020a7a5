"""What we ship for tests: a pytest plug-in, conformance suites, failpoints, the crash harness."""

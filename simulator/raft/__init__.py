"""A metadata quorum alone."""

"""What can be asked of Guardian, a module a resource: what its path answers, and what changes of it come to."""

"""Who may do what: principals, operations, resources, the authorizer."""

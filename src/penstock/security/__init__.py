"""Who may do what: principals, operations, resources, and the authorizer. Sockets and TLS are the server's."""

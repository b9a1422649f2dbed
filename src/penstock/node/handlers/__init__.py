"""One file an API family; each is a plain function from a request to a response."""

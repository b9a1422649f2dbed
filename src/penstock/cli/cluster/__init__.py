"""`penstock cluster`: one module an action, imported when it is used; `command` has their arguments."""

"""Where replicas are to lie, and who of them is to lead: plans made from what is so now. Pure; no cluster is asked."""

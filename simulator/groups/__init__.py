"""Consumer groups in the cluster simulator: members of both protocols, what befalls them, and what must hold."""

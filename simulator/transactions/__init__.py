"""Transactions in the cluster simulator: producers, chains and readers, what befalls them, and what must hold."""

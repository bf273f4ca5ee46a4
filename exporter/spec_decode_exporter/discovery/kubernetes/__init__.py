"""Kubernetes discovery: targets from the pods of a cluster."""

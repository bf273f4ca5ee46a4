"""Targets from the pods of a Kubernetes cluster."""

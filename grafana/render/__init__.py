"""Pictures of the dashboards: ``python -m grafana.render`` draws them of a fleet of simulated servers."""

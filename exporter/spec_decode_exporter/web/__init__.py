"""HTTP: /metrics, the JSON API, the page, their server and its access control."""

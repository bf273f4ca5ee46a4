"""The JSON API: versioned, described by OpenAPI, wrong requests answered with RFC 9457 problems."""

"""JSON API: versioned, described by OpenAPI, with errors as RFC 9457 problems."""

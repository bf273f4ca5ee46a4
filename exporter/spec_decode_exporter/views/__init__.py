"""JSON models of the API and the page, and their builders."""

"""The studio and the HTTP API: projects of photos, answers, and a page that shows them."""

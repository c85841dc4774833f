"""Models: providers, requests and streams, prices, context windows."""

"""The dashboard as an application and a server: who may look, what every answer bears."""

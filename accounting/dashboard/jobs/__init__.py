"""Long computations beside the server: verification, certificates, composed estimates."""

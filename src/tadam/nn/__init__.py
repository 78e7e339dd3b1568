"""Networks: backbones, FiLM and the task embedding network."""

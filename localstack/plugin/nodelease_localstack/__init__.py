"""What LocalStack needs to run this project without Docker.

LocalStack finds the hooks and the executor through nodelease_localstack.dist-info/entry_points.txt when this folder's parent is on
PYTHONPATH; nothing is installed and nothing of LocalStack is copied. Written against localstack-core 4.9.2.
"""

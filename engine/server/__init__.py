"""The Iceberg REST catalog of a warehouse, over HTTP. Spec: apache/iceberg, open-api/rest-catalog-open-api.yaml."""

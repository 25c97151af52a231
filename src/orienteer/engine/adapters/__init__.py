"""Other search engines behind the `Engine` protocol: Lucene, tantivy, OpenSearch and Elasticsearch."""

"""Put an agent in front of an index of OpenSearch or Elasticsearch; nothing is indexed again (extra: opensearch).

python examples/opensearch.py https://localhost:9200/my-index 'who first isolated sodium metal'

The user name and password, or an API key, come from the environment: see docs/opensearch.md.
"""

import sys

from orienteer import OrienteerError, Searcher

if len(sys.argv) != 3:
    sys.exit(__doc__)
address, question = sys.argv[1:]
try:
    searcher = Searcher.open(address, steps=5, budget=25)
    print(searcher.ask(question))
except OrienteerError as error:
    sys.exit(f"error: {error}")

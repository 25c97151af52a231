"""What reader, agents and dense retrieval share: model folders, CTranslate2, quantisation, tokenisation."""

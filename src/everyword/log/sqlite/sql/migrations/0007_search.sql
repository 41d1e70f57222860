-- Texts that a search finds: of messages, and the titles of conversations at node 0. A text's rowid is its agent, times
-- 2^32, plus its node. `words` has the words of the text as `search_words` splits them; the tokenizer only has to part
-- them at the spaces. The index does not know where in a text a word is. It has the beginnings of words as well: what begins
-- with two letters is spread over thousands of words, and each of them would be looked up.

CREATE VIRTUAL TABLE message_text USING fts5 (words, body UNINDEXED, detail = none, columnsize = 0, tokenize = 'ascii',
  prefix = '1 2 3');

-- Shared links are kept rows (kind `share`) by the digest of their tokens; a request finds them by it.
CREATE INDEX kept_by_share ON kept (key) WHERE kind = 'share';

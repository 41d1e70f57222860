-- Shared links are kept rows (kind `share`) by the digest of their tokens; a request finds them by it.
create index kept_by_share on everyword.kept (key) where kind = 'share';

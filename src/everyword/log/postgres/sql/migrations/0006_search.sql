-- Texts that a search finds: of messages, and the titles of conversations at node 0. They come as kept rows of kind `text`,
-- which a trigger puts here: their key is the node, the first line of their body has the words of the text, as
-- `search_words` splits them, and the text follows. An empty body removes the text; with the key `*` those of all messages.

create table everyword.message_text (
  agent bigint not null,
  node  bigint not null,
  words tsvector not null,
  body  bytea not null,
  primary key (agent, node)
);
create index message_text_by_word on everyword.message_text using gin (words);

create function everyword.put_message_text() returns trigger language plpgsql as $$
declare line int;
begin
  if new.key = '*' then
    delete from everyword.message_text where agent = new.agent and node > 0;
  elsif new.body = '' then
    delete from everyword.message_text where agent = new.agent and node = new.key::bigint;
  else
    line := position('\x0a'::bytea in new.body);
    insert into everyword.message_text (agent, node, words, body) values (new.agent, new.key::bigint,
        array_to_tsvector(string_to_array(convert_from(substring(new.body from 1 for line - 1), 'UTF8'), ' ')),
        substring(new.body from line + 1))
      on conflict (agent, node) do update set (words, body) = row (excluded.words, excluded.body);
  end if;
  return null;
end $$;

create trigger put_message_text before insert on everyword.kept
  for each row when (new.kind = 'text') execute function everyword.put_message_text();

create function everyword.remove_message_texts() returns trigger language plpgsql as $$
begin
  delete from everyword.message_text where agent = old.key;
  return null;
end $$;
create trigger remove_message_texts after delete on everyword.agent
  for each row execute function everyword.remove_message_texts();

-- As `replace_rows_2`, for texts as well.
create function everyword.replace_rows_3(
  p_node bigint, p_generation int, p_key bigint, p_epoch bigint, p_root bigint, p_term bigint,
  h_agent bigint[], h_seq bigint[], r_agent bigint[], r_node bigint[], cleared bigint[],
  turns everyword.turn_row_1[], messages everyword.message_row_1[], keeps everyword.kept_row_1[],
  drops everyword.kept_row_1[], agents everyword.agent_row_1[], w_agent bigint[], w_at bigint[], unwoken bigint[]
) returns bool language plpgsql as $$
begin
  perform everyword.check_fence_1(p_node, p_generation);
  perform 1 from everyword.agent where key = p_key for update;
  if not everyword.holds_lease_1(p_node, p_key, p_epoch, p_root, p_term) then return false; end if;
  delete from everyword.message_text where agent = p_key;
  return everyword.replace_rows_2(p_node, p_generation, p_key, p_epoch, p_root, p_term, h_agent, h_seq, r_agent, r_node,
    cleared, turns, messages, keeps, drops, agents, w_agent, w_at, unwoken);
end $$;

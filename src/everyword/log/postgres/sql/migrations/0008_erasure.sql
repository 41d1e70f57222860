-- Erasing principals. The progress, to be continued after a crash, and what became of it.
create table everyword.erasure (id text collate "C" not null, key text collate "C" not null, body bytea not null,
  primary key (id, key));

-- Conversations that were deleted because their owner is erased: their names are forgotten once other nodes have seen them.
alter table everyword.list_change add column is_erased bool not null default false;

-- Rewrite events of an agent, delete the chunks of some turns and all states but the last one. The caller replaces the
-- rows in the same transaction.
create function everyword.rewrite_1(
  p_node bigint, p_generation int, p_key bigint, p_epoch bigint, p_root bigint, p_term bigint,
  p_seq bigint[], p_body bytea[], p_turn bigint[]
) returns bool language plpgsql as $$
declare states bigint;
begin
  perform everyword.check_fence_1(p_node, p_generation);
  perform 1 from everyword.agent where key = p_key for update;
  if not everyword.holds_lease_1(p_node, p_key, p_epoch, p_root, p_term) then return false; end if;
  update everyword.event e set body = new.body from unnest(p_seq, p_body) as new (seq, body)
    where e.agent = p_key and e.seq = new.seq and e.part = 0 and e.kind <> 'chunk';
  delete from everyword.event where agent = p_key and kind = 'chunk' and turn = any (p_turn);
  delete from everyword.event e where e.agent = p_key and e.part = 0 and e.kind = 'state.set' and e.seq < (
    select max(seq) from everyword.event where agent = p_key and part = 0 and kind = 'state.set');
  get diagnostics states = row_count;
  delete from everyword.replaced_state where agent = p_key;
  if states > 0 then
    insert into everyword.pruned_states as p (agent, states) values (p_key, states)
      on conflict (agent) do update set states = p.states + excluded.states;
  end if;
  update everyword.store set deletions = deletions + 1;
  return true;
end $$;

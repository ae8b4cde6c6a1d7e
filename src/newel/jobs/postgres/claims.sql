-- A claim must not look at the whole queue: absurd has no index in the order of its search.

create function newel.index_task_queue(p_name text) returns void language plpgsql as $$
begin
  execute format(
    'create index if not exists %I on absurd.%I (available_at, run_id) where state in (''pending'', ''sleeping'')',
    'r_' || p_name || '_claim', 'r_' || p_name
  );
end $$;

create function newel.index_new_task_queue() returns trigger language plpgsql as $$
begin
  perform newel.index_task_queue(new.name);
  return new;
end $$;

create trigger index_task_queue after insert on newel.task_queues
  for each row execute function newel.index_new_task_queue();

select newel.index_task_queue(name) from newel.task_queues;

revoke all on all functions in schema newel from public;

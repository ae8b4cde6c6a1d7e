-- What the journal of a running job lacks: the message that its model is writing, and the output of running tools. Only the latest is kept, for
-- readers on other machines, and only while there are any. Nothing depends on it: it is not logged, so it is empty after the server has crashed.

create sequence newel.live_versions;

create unlogged table newel.live (
  job bigint primary key,
  run uuid not null,
  version bigint not null,
  seq integer not null,  -- of the last event that was in the journal
  data bytea not null
);

-- False if the lease is lost.
create function newel.put_live(p_job text, p_run uuid, p_seq integer, p_data bytea)
returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into newel.live as l (job, run, version, seq, data)
    select n, p_run, nextval('newel.live_versions'), p_seq, p_data from newel.jobs
      where id = p_job and run = p_run and state = 'running'
    on conflict (job) do update
      set run = excluded.run, version = excluded.version, seq = excluded.seq, data = excluded.data;
  return found;
end $$;

create or replace function newel.clean() returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  if pg_try_advisory_xact_lock(1852143468, 1) then
    perform absurd.cleanup_tasks(name, 60, 10000) from newel.task_queues;
    delete from newel.workers where seen < clock_timestamp() - interval '1 day';
    delete from newel.requests r where begun < clock_timestamp() - interval '1 day'
      and not exists (select from newel.workers where name = r.worker and expires > clock_timestamp());
    delete from newel.live l
      where not exists (select from newel.jobs where n = l.job and run = l.run and state = 'running');
  end if;
end $$;

revoke all on all functions in schema newel from public;

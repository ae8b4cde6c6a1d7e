-- Fleets: jobs that were submitted together. The key of such a job is FLEET/NUMBER.

-- `total` is the number of jobs that a fleet will have once all are submitted, null if that was not said.
create table newel.fleets (
  n bigint generated always as identity primary key,
  id text collate "C" not null unique,
  kind text not null,
  total integer,
  submitted integer not null default 0,
  created timestamptz not null default clock_timestamp()
);

-- `result` is how the run of a job ended, in the words of its kind. The collation makes the beginning of an id a range of the index.
alter table newel.jobs
  add column fleet text collate "C" generated always as (nullif(split_part(key, '/', 1), key)) stored,
  add column result text not null default '';
create index jobs_by_fleet on newel.jobs (fleet, n) include (kind, state, result) where fleet is not null;
create index jobs_by_id on newel.jobs (id collate "C");

insert into newel.fleets (id, kind, submitted, created)
  select fleet, min(kind), count(*), min(created) from newel.jobs where fleet is not null group by fleet order by min(n);

-- The state of a job for lists: a job that is done has its result, if it has one.
create function newel.shown_state(p_state text, p_result text) returns text language sql immutable as $$
  select case when p_state = 'done' and p_result <> '' then p_result else p_state end
$$;

-- Says that a fleet will be submitted, before anything is stored for it.
create function newel.begin_fleet(p_fleet text, p_kind text, p_total integer)
returns void language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
begin
  insert into newel.fleets (id, kind, total) values (p_fleet, p_kind, p_total) on conflict (id) do nothing;
end $$;

create function newel.count_in_fleet(p_id text) returns void language plpgsql as $$
begin
  insert into newel.fleets as f (id, kind, submitted)
    select j.fleet, j.kind, 1 from newel.jobs j where j.id = p_id and j.fleet is not null
    on conflict (id) do update set submitted = f.submitted + 1;
end $$;

create or replace function newel.submit(
  p_id text, p_key text, p_kind text, p_queue text, p_labels text[], p_params bytea
) returns text language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_job record;
  v_queue text;
begin
  loop
    select queue into v_queue from newel.jobs where key = p_key;
    if found then
      perform newel.lock_queue(v_queue);
      select n, id, state into v_job from newel.jobs where key = p_key for update;
      if found then
        if v_job.state in ('waiting', 'asking') then
          perform newel.set_state(v_job.n, 'queued', '');
          update newel.jobs set attempts = 0 where n = v_job.n;
          perform newel.advance(v_queue);
        end if;
        return v_job.id;
      end if;
    end if;
    perform newel.lock_queue(p_queue);
    insert into newel.jobs (id, key, kind, queue, task_queue, state, params)
      values (p_id, p_key, p_kind, p_queue, newel.task_queue(p_labels), 'queued', p_params)
      on conflict do nothing;
    if found then
      perform newel.advance(p_queue);
      perform newel.count_in_fleet(p_id);
      return p_id;
    elsif exists (select from newel.jobs where id = p_id) then
      return p_id;  -- the answer to an earlier try was lost
    end if;
  end loop;
end $$;

drop function newel.finish(text, uuid, text, text, double precision);

-- False if the lease is lost.
create function newel.finish(
  p_job text, p_run uuid, p_state text, p_reason text, p_delay double precision, p_result text default ''
) returns boolean language plpgsql security definer set search_path = pg_catalog, pg_temp as $$
declare
  v_job record;
  v_due timestamptz := clock_timestamp() + make_interval(secs => p_delay);
begin
  perform newel.lock_queue(queue) from newel.jobs where id = p_job;
  select n, queue, task, task_queue, state, cancelled into v_job from newel.jobs
    where id = p_job and run = p_run for update;
  if not found then
    return false;
  elsif v_job.state <> 'running' then
    return true;  -- the answer to an earlier try was lost
  end if;
  begin
    if p_state = 'retry' and v_job.cancelled is null then
      perform absurd.fail_run(v_job.task_queue, p_run, '{}', v_due);
      perform newel.set_state(v_job.n, 'queued', p_reason);
      update newel.jobs set task = v_job.task, due = v_due where n = v_job.n;
    else
      perform absurd.complete_run(v_job.task_queue, p_run);
      perform newel.set_state(
        v_job.n, case when v_job.cancelled is null then p_state else 'cancelled' end, coalesce(v_job.cancelled, p_reason)
      );
      update newel.jobs set result = p_result where n = v_job.n and v_job.cancelled is null and p_result <> '';
    end if;
  exception when sqlstate 'AB001' or sqlstate 'AB002' or raise_exception then
    return false;
  end;
  perform newel.advance(v_job.queue);
  return true;
end $$;

revoke all on all functions in schema newel from public;

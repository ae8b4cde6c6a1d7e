-- The id of a job is the name of its folder on a worker, and a part of the names of its snapshots in the store. Who may submit chooses it, so another
-- one could lead to any folder. A worker checks it again, by the rule of `is_job_id` in newel/jobs/engine.py.

create function newel.is_job_id(p_id text) returns boolean language sql immutable as $$
  select p_id collate "C" ~ '^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$'
$$;

-- Jobs that have another id keep their journals, and get one that is possible. No snapshot has their old names.
update newel.jobs set id = 'renamed-' || n || '-' || md5(id) where not newel.is_job_id(id);
alter table newel.jobs add constraint jobs_id check (newel.is_job_id(id));
delete from newel.removals where not newel.is_job_id(name);

-- The id of a fleet is a part of a key, which may be anything. Only of one that is possible there is a start in the store.
create or replace function newel.drop_fleet(p_fleet text) returns void language plpgsql as $$
begin
  perform from newel.fleets where id = p_fleet
    and (submitted >= total or created < clock_timestamp() - interval '1 day') for update;
  if not found or exists (select from newel.jobs where fleet = p_fleet) then
    return;
  end if;
  insert into newel.removals (name) select 'start-' || p_fleet where newel.is_job_id('start-' || p_fleet) on conflict do nothing;
  delete from newel.budgets where name = p_fleet;
  delete from newel.fleets where id = p_fleet;
end $$;

revoke all on all functions in schema newel from public;

-- Roles with the least rights, for an administrator to create once, after the schema has been installed by its owner:
--
--     psql "$NEWEL_ENGINE" -f create_roles.sql
--     create user ada in role newel_control password '…';
--     create user rack1 in role newel_worker password '…';
--
-- `newel_control` submits, cancels, reads and deletes jobs; `newel_worker` claims and runs them, and deletes those that have ended more than
-- a day ago. Neither may change a table itself.

do $$
begin
  if not exists (select from pg_roles where rolname = 'newel_control') then
    create role newel_control nologin;
  end if;
  if not exists (select from pg_roles where rolname = 'newel_worker') then
    create role newel_worker nologin;
  end if;
end $$;

grant usage on schema newel to newel_control, newel_worker;
grant select on all tables in schema newel to newel_control, newel_worker;

grant execute on function
  newel.submit, newel.cancel, newel.suspend, newel.annotate, newel.purge, newel.drain,
  newel.set_budget, newel.begin_fleet, newel.delete_jobs, newel.delete_ended, newel.ended_jobs,
  newel.claim_removals, newel.finish_removals
  to newel_control;
grant execute on function newel.shown_state to newel_control, newel_worker;

grant execute on function
  newel.claim, newel.append, newel.renew, newel.finish, newel.release, newel.heartbeat, newel.clean,
  newel.begin_request, newel.end_request, newel.expire, newel.claim_removals, newel.finish_removals, newel.put_live
  to newel_worker;

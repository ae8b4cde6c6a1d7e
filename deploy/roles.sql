-- The users of a fleet's database, for its administrator, by psql: the owner of the schema, the workers, and those who submit jobs.
-- The folder SECRETS, or else /run/secrets, has their passwords, and this may run again to change them. What the groups may do follows
-- when the schema is installed (create_roles.sql).
\set ON_ERROR_STOP 1
\set owner_password `cat "${SECRETS:-/run/secrets}/database_owner"`
\set worker_password `cat "${SECRETS:-/run/secrets}/database_worker"`
\set control_password `cat "${SECRETS:-/run/secrets}/database_control"`

select format('create role %I', name)
  from unnest(array['newel', 'newel_worker', 'newel_control', 'worker', 'control']) name
  where not exists (select from pg_roles where rolname = name)
\gexec

alter role newel login password :'owner_password';
alter role worker login password :'worker_password';
alter role control login password :'control_password';
grant newel_worker to worker;
grant newel_control to control;

select format('alter database %I owner to newel', current_database()) \gexec
select format('revoke all on database %I from public', current_database()) \gexec
select format('grant connect on database %I to newel_worker, newel_control', current_database()) \gexec
revoke all on schema public from public;

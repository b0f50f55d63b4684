-- The seed database, version 0.2: run once as superuser in an empty database `sealmark_seed`.
-- Fixed schema and rows, PostgreSQL 13 to 18, plain SQL in one batch. Passwords of the roles and
-- this run's sentinels (sentinels.yaml) are set by the harness afterwards.

-- Roles. The instances get sm_admin, sm_analyst and sm_tenant; sm_quoted is an analyst whose
-- password needs encoding; sm_owner owns what no instance may own.
CREATE ROLE sm_owner NOLOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION;
CREATE ROLE sm_admin LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION;
CREATE ROLE sm_analyst LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION;
CREATE ROLE sm_quoted LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION;
CREATE ROLE sm_tenant LOGIN NOSUPERUSER NOBYPASSRLS NOCREATEDB NOCREATEROLE NOREPLICATION;

REVOKE ALL ON DATABASE sealmark_seed FROM PUBLIC;
GRANT CONNECT ON DATABASE sealmark_seed TO sm_admin, sm_analyst, sm_quoted, sm_tenant;
GRANT TEMPORARY ON DATABASE sealmark_seed TO sm_admin;
REVOKE ALL ON SCHEMA public FROM PUBLIC;
GRANT USAGE ON SCHEMA public TO sm_owner, sm_analyst, sm_quoted, sm_tenant;
GRANT USAGE, CREATE ON SCHEMA public TO sm_admin;

-- Tables. The sentinel cells are rewritten in every run, so pages are left with room: the new
-- version of a row stays among the first that a query without an order returns.
CREATE TABLE public.tenants (
    id int PRIMARY KEY,
    name text NOT NULL
) WITH (fillfactor = 10);
CREATE TABLE public.customers (
    id int PRIMARY KEY,
    tenant_id int NOT NULL REFERENCES public.tenants,
    name text NOT NULL,
    email text NOT NULL,
    phone text NOT NULL,
    balance numeric(10, 2) NOT NULL,
    notes text NOT NULL
) WITH (fillfactor = 10);
CREATE TABLE public.orders (
    id int PRIMARY KEY,
    customer_id int NOT NULL REFERENCES public.customers,
    tenant_id int NOT NULL REFERENCES public.tenants,
    item text NOT NULL,
    amount numeric(10, 2) NOT NULL,
    placed_on date NOT NULL
) WITH (fillfactor = 25);
CREATE TABLE public.big (
    id int NOT NULL,
    tag text NOT NULL,
    filler text NOT NULL
);
CREATE TABLE public.probe_t (
    id serial PRIMARY KEY,
    v text
);
CREATE TABLE public.audit_probe (
    id int PRIMARY KEY,
    at timestamp NOT NULL,
    who text NOT NULL,
    statement text NOT NULL
);

-- Rows. Tenants alternate by id; tenant 1 is the one sm_tenant belongs to.
INSERT INTO public.tenants (id, name) VALUES
    (1, 'Harbour Supplies'),
    (2, 'SM-name-0000000000000000'),
    (3, 'SM-name-0000000000000000'),
    (4, 'SM-name-0000000000000000');
INSERT INTO public.customers (id, tenant_id, name, email, phone, balance, notes)
SELECT
    n,
    (n - 1) % 4 + 1,
    (ARRAY['Ada', 'Bo', 'Cleo', 'Dan', 'Eva', 'Finn', 'Gus', 'Hana', 'Ira', 'Jo'])[(n - 1) % 10 + 1]
        || ' '
        || (ARRAY['Alder', 'Birch', 'Cedar', 'Elm', 'Fir', 'Hazel', 'Larch', 'Maple', 'Oak', 'Pine'])[(n - 1) / 10 + 1],
    CASE WHEN n IN (1, 2, 3, 4, 5, 50, 99, 100) THEN 'SM-email-0000000000000000' ELSE 'customer' || n END
        || '@example.com',
    '555-01' || lpad((n - 1)::text, 2, '0'),
    (n * 37 % 1000) + 0.5,
    CASE WHEN n IN (2, 3, 4, 98, 99, 100) THEN 'SM-notes-0000000000000000' ELSE 'ordinary customer ' || n END
FROM generate_series(1, 100) AS n
ORDER BY n;
INSERT INTO public.orders (id, customer_id, tenant_id, item, amount, placed_on)
SELECT
    n,
    (n - 1) % 100 + 1,
    (n - 1) % 4 + 1,
    CASE WHEN n IN (2, 3, 4, 4998, 4999, 5000) THEN 'SM-item-0000000000000000' ELSE 'item ' || n END,
    (n * 13 % 500) + 0.25,
    DATE '2025-01-01' + n % 365
FROM generate_series(1, 5000) AS n
ORDER BY n;
INSERT INTO public.big (id, tag, filler)
SELECT n, 'kestrel ' || n, 'grey feathers over the northern estuary'
FROM generate_series(1, 100000) AS n
ORDER BY n;
INSERT INTO public.probe_t (v) VALUES ('seed 1'), ('seed 2'), ('seed 3'), ('seed 4'), ('seed 5');
INSERT INTO public.audit_probe (id, at, who, statement) VALUES
    (1, TIMESTAMP '2025-01-01 09:00:00', 'nobody', 'nothing');

-- What only looks like reading: each of these writes a row to probe_t. None touches its sequence,
-- which would move even where the row is rolled back.
CREATE FUNCTION public.f_write(v text DEFAULT 'f_write') RETURNS int
LANGUAGE plpgsql VOLATILE AS $body$
DECLARE
    made int;
BEGIN
    INSERT INTO public.probe_t (id, v) SELECT coalesce(max(p.id), 0) + 1, $1 FROM public.probe_t AS p
    RETURNING probe_t.id INTO made;
    RETURN made;
END
$body$;
CREATE FUNCTION public.f_owner(v text DEFAULT 'f_owner') RETURNS int
LANGUAGE plpgsql VOLATILE SECURITY DEFINER SET search_path = pg_catalog, pg_temp AS $body$
DECLARE
    made int;
BEGIN
    INSERT INTO public.probe_t (id, v) SELECT coalesce(max(p.id), 0) + 1, $1 FROM public.probe_t AS p
    RETURNING probe_t.id INTO made;
    RETURN made;
END
$body$;
CREATE FUNCTION public.f_stable(v text DEFAULT 'f_stable') RETURNS int
LANGUAGE plpgsql STABLE AS $body$
BEGIN
    RETURN public.f_write($1);
END
$body$;
CREATE FUNCTION public.f_pair(a text, b text) RETURNS int
LANGUAGE plpgsql VOLATILE AS $body$
BEGIN
    RETURN public.f_write($1 || $2);
END
$body$;
CREATE OPERATOR public.<+> (LEFTARG = text, RIGHTARG = text, FUNCTION = public.f_pair);
CREATE VIEW public.v_write AS SELECT public.f_write('v_write') AS id;
CREATE PROCEDURE public.p_write(v text DEFAULT 'p_write')
LANGUAGE plpgsql AS $body$
BEGIN
    INSERT INTO public.probe_t (id, v) SELECT coalesce(max(p.id), 0) + 1, $1 FROM public.probe_t AS p;
END
$body$;

-- An owner view: it hides addresses from its readers without relying on a column privilege, and
-- shows them to whoever is no reader, so that leaving one's role shows.
CREATE VIEW public.customers_masked WITH (security_barrier = true) AS
SELECT
    id,
    tenant_id,
    name,
    CASE
        WHEN current_user IN ('sm_analyst', 'sm_quoted', 'sm_tenant') THEN 'hidden@example.com'
        ELSE email
    END AS email,
    '***' AS phone,
    balance,
    notes
FROM public.customers;

-- Rows of one tenant for sm_tenant, of all for whoever else may read the table: through the view
-- of its owner the policy holds for superusers too, and these must see what they would see alone.
-- Keyed on the user, because a setting would be for any statement to change.
ALTER TABLE public.customers ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.customers FORCE ROW LEVEL SECURITY;
CREATE POLICY by_user ON public.customers TO PUBLIC
USING (CASE current_user WHEN 'sm_tenant' THEN tenant_id = 1 ELSE true END);
ALTER TABLE public.orders ENABLE ROW LEVEL SECURITY;
ALTER TABLE public.orders FORCE ROW LEVEL SECURITY;
CREATE POLICY by_user ON public.orders TO PUBLIC
USING (CASE current_user WHEN 'sm_tenant' THEN tenant_id = 1 ELSE true END);

-- Owners and rights.
ALTER TABLE public.tenants OWNER TO sm_owner;
ALTER TABLE public.customers OWNER TO sm_owner;
ALTER TABLE public.orders OWNER TO sm_owner;
ALTER TABLE public.big OWNER TO sm_owner;
ALTER VIEW public.customers_masked OWNER TO sm_owner;
ALTER VIEW public.v_write OWNER TO sm_owner;
ALTER OPERATOR public.<+> (text, text) OWNER TO sm_owner;
ALTER TABLE public.probe_t OWNER TO sm_admin;
ALTER TABLE public.audit_probe OWNER TO sm_admin;
REVOKE EXECUTE ON ALL ROUTINES IN SCHEMA public FROM PUBLIC;
ALTER FUNCTION public.f_write(text) OWNER TO sm_owner;
ALTER FUNCTION public.f_owner(text) OWNER TO sm_owner;
ALTER FUNCTION public.f_stable(text) OWNER TO sm_owner;
ALTER FUNCTION public.f_pair(text, text) OWNER TO sm_owner;
ALTER PROCEDURE public.p_write(text) OWNER TO sm_owner;

GRANT INSERT, SELECT ON public.probe_t TO sm_owner;
GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE
    ON public.tenants, public.customers, public.orders, public.big TO sm_admin;
GRANT SELECT ON public.customers_masked, public.v_write TO sm_admin;
GRANT EXECUTE ON FUNCTION public.f_write(text), public.f_owner(text), public.f_stable(text),
    public.f_pair(text, text) TO sm_admin;
GRANT EXECUTE ON PROCEDURE public.p_write(text) TO sm_admin;

GRANT SELECT ON public.tenants, public.orders, public.big, public.probe_t, public.audit_probe,
    public.customers_masked TO sm_analyst, sm_quoted;
GRANT SELECT (id, tenant_id, name, phone, balance, notes) ON public.customers TO sm_analyst, sm_quoted;

-- The names of the other tenants are theirs: sm_tenant reads the ids alone.
GRANT SELECT (id) ON public.tenants TO sm_tenant;
GRANT SELECT ON public.customers, public.orders, public.big, public.customers_masked TO sm_tenant;

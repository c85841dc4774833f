-- The journal's own functions (architecture#journal, reliability#lease). One call is one round trip and one commit.
-- Error codes: AO001 the epoch is not ours any more, AO002 the journal moved on.
-- Early migrations load this file before later ones add the columns it names.
SET LOCAL check_function_bodies = off;

-- What the run is to hear of now: an item may be held back for a moment, in which it can be taken back.
CREATE OR REPLACE FUNCTION journal_mail(p_run uuid) RETURNS SETOF loops_mailboxitem LANGUAGE sql STABLE AS $$
    SELECT * FROM loops_mailboxitem m WHERE m.run_id = p_run AND m.consumed_seq IS NULL
        AND (m.not_before IS NULL OR m.not_before <= statement_timestamp())
$$;

-- What those words meant, of rows and workers from before they had a kind.
CREATE OR REPLACE FUNCTION journal_waiting(p_status text, p_words text, OUT kind text, OUT name text)
LANGUAGE sql IMMUTABLE AS $$
    SELECT k, coalesce(CASE k WHEN 'gate' THEN p_words
                              WHEN 'turn' THEN substring(p_words FROM '^turn at (.*): (?:it is next|[0-9]+ before it)$')
                              WHEN 'model' THEN substring(p_words FROM '^model (.*): +next try at ') END, '')
    FROM (SELECT CASE
        WHEN p_status = 'waiting' AND p_words = 'message' THEN 'message'
        WHEN p_status IN ('waiting', 'paused', 'completed', 'failed', 'interrupted', 'escalated')
            THEN CASE WHEN p_words ~ '^[a-z_]+$' THEN 'gate' ELSE '' END
        WHEN p_status <> 'waiting_for_resource' THEN ''
        WHEN starts_with(p_words, 'its folder') THEN 'folder'
        WHEN starts_with(p_words, 'turn at ') THEN 'turn'
        WHEN starts_with(p_words, 'model ') THEN 'model'
        WHEN starts_with(p_words, 'a worker of a newer') THEN 'newer_worker' ELSE '' END AS k) kinds
$$;

CREATE OR REPLACE FUNCTION journal_claim(p_run uuid, p_owner text, p_ttl interval)
RETURNS TABLE (epoch bigint, head_seq bigint, head_hash bytea, abandoned boolean, recoveries int) LANGUAGE sql AS $$
    WITH found AS (
        SELECT r.id, r.owner <> '' AS abandoned FROM agent_execution_history r
        WHERE r.id = p_run AND (r.lease_until IS NULL OR r.lease_until < clock_timestamp())
          AND (r.runnable OR r.owner <> '' OR r.wake_at <= clock_timestamp()
               OR EXISTS (SELECT 1 FROM journal_mail(p_run)))
        FOR UPDATE  -- waits for whoever decides or speaks at this moment: a bell that is skipped is lost
    )
    UPDATE agent_execution_history r
    SET epoch = r.epoch + 1, owner = p_owner, lease_until = clock_timestamp() + p_ttl, wake_at = NULL,
        runnable = false, recoveries = r.recoveries + found.abandoned::int
    FROM found WHERE r.id = found.id
    RETURNING r.epoch, r.head_seq, r.head_hash, found.abandoned, r.recoveries
$$;

CREATE OR REPLACE FUNCTION journal_renew(p_run uuid, p_epoch bigint, p_ttl interval)
RETURNS boolean LANGUAGE sql AS $$
    UPDATE agent_execution_history SET lease_until = clock_timestamp() + p_ttl
    WHERE id = p_run AND epoch = p_epoch AND owner <> ''
    RETURNING true
$$;

-- Two statements on purpose: the second takes a new snapshot after the row is locked, so that a mailbox item which was
-- committed while we waited for the lock is seen, and the run stays runnable.
CREATE OR REPLACE FUNCTION journal_release(p_run uuid, p_epoch bigint, p_wake timestamptz, p_runnable boolean)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE again boolean;
BEGIN
    PERFORM 1 FROM agent_execution_history WHERE id = p_run AND epoch = p_epoch FOR UPDATE;
    IF NOT FOUND THEN RETURN NULL; END IF;
    again := p_runnable OR EXISTS (SELECT 1 FROM journal_mail(p_run));
    UPDATE agent_execution_history SET owner = '', lease_until = NULL, wake_at = p_wake, runnable = again
    WHERE id = p_run;
    RETURN again;
END $$;

-- Facts come as lists of equal length: kinds, steps, times (microseconds since the epoch), hashes (hex) and bodies, the
-- bodies one a line, since canonical JSON holds no line break. What is parsed as jsonb is only what becomes rows.
CREATE OR REPLACE FUNCTION journal_append(
    p_run uuid, p_epoch bigint, p_expected bigint, p_prev bytea,
    p_kinds text[], p_steps int[], p_ats bigint[], p_hashes text[], p_bodies text,
    p_status text, p_phase text, p_tokens bigint, p_cost_microusd bigint, p_cost_unknown boolean, p_progress float8,
    p_waiting_kind text, p_waiting_name text, p_waiting_on text,
    p_max_steps int, p_end_reason text, p_final_status text, p_rows jsonb)
RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    n int := cardinality(p_kinds);
    v_at timestamptz := to_timestamp(p_ats[n] / 1e6);
BEGIN
    UPDATE agent_execution_history SET
        head_seq = p_expected + n, head_hash = decode(p_hashes[n], 'hex'),
        status = p_status, phase = p_phase, total_steps = p_steps[n], total_tokens = least(p_tokens, 2147483647)::int,
        total_cost_usd = p_cost_microusd / 1e6, cost_unknown = p_cost_unknown, progress = p_progress,
        waiting_kind = p_waiting_kind, waiting_name = p_waiting_name, waiting_on = p_waiting_on, max_steps = p_max_steps,
        active_us = coalesce((p_rows->>'active_us')::bigint, active_us),  -- a worker of an older version does not say
        recoveries = CASE WHEN p_steps[n] > total_steps THEN 0 ELSE recoveries END,
        end_reason = p_end_reason, final_status = p_final_status, last_activity_at = v_at,
        completed_at = CASE WHEN p_final_status = '' THEN NULL ELSE coalesce(completed_at, v_at) END
    WHERE id = p_run AND epoch = p_epoch AND head_seq = p_expected AND head_hash = p_prev;
    IF NOT FOUND THEN
        IF EXISTS (SELECT 1 FROM agent_execution_history WHERE id = p_run AND epoch = p_epoch) THEN
            RAISE EXCEPTION 'the journal of run % is not at %', p_run, p_expected USING ERRCODE = 'AO002';
        END IF;
        RAISE EXCEPTION 'run % has another owner than epoch %', p_run, p_epoch USING ERRCODE = 'AO001';
    END IF;

    INSERT INTO loops_fact (run_id, seq, kind, step, at, body, prev, hash, epoch)
    SELECT p_run, p_expected + f.place, f.kind, f.step, to_timestamp(f.at / 1e6), convert_to(f.body, 'UTF8'),
           CASE WHEN f.place = 1 THEN p_prev ELSE decode(p_hashes[f.place - 1], 'hex') END, decode(f.hash, 'hex'), p_epoch
    FROM unnest(p_kinds, p_steps, p_ats, p_hashes, string_to_array(p_bodies, E'\n'))
        WITH ORDINALITY AS f(kind, step, at, hash, body, place);

    IF p_rows IS NOT NULL THEN
        PERFORM journal_project(p_run, p_rows);
    END IF;
END $$;

-- A worker of an older version says in words alone what its run waits for; it works beside newer ones while they are exchanged.
CREATE OR REPLACE FUNCTION journal_append(
    p_run uuid, p_epoch bigint, p_expected bigint, p_prev bytea,
    p_kinds text[], p_steps int[], p_ats bigint[], p_hashes text[], p_bodies text,
    p_status text, p_phase text, p_tokens bigint, p_cost_microusd bigint, p_cost_unknown boolean, p_progress float8,
    p_waiting_on text, p_max_steps int, p_end_reason text, p_final_status text, p_rows jsonb)
RETURNS void LANGUAGE sql AS $$
    SELECT journal_append(p_run, p_epoch, p_expected, p_prev, p_kinds, p_steps, p_ats, p_hashes, p_bodies,
        p_status, p_phase, p_tokens, p_cost_microusd, p_cost_unknown, p_progress,
        (w).kind, (w).name, p_waiting_on, p_max_steps, p_end_reason, p_final_status, p_rows)
    FROM journal_waiting(p_status, p_waiting_on) w
$$;

CREATE OR REPLACE FUNCTION journal_project(p_run uuid, p_rows jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    u record;
BEGIN
    IF p_rows ? 'steps' THEN
        INSERT INTO agent_execution_steps AS s (
            id, execution_id, step_number, timestamp, phase, first_seq, last_seq, reasoning, said, error, tokens_used,
            cost_usd, progress, duration_ms)
        SELECT x.id, p_run, x.step_number, x.timestamp, x.phase, x.first_seq, x.first_seq, '', '', '', 0, 0, 0, 0
        FROM jsonb_to_recordset(p_rows->'steps') AS x(
            id uuid, step_number int, timestamp timestamptz, phase text, first_seq bigint)
        ON CONFLICT (execution_id, step_number) DO NOTHING;
    END IF;
    -- One row at a time: joined as a set, the planner expects a hundred and reads every row of the run.
    IF p_rows ? 'step_updates' THEN
        FOR u IN SELECT * FROM jsonb_to_recordset(p_rows->'step_updates') AS r(
            step_number int, reasoning text, said text, action jsonb, result jsonb, validation jsonb, success boolean,
            error text, tokens_used int, cost_usd numeric, progress float8, ended_at timestamptz, last_seq bigint)
        LOOP
            UPDATE agent_execution_steps s SET
                reasoning = coalesce(u.reasoning, s.reasoning), said = coalesce(u.said, s.said),
                action = coalesce(u.action, s.action), result = coalesce(u.result, s.result),
                validation = coalesce(u.validation, s.validation), success = coalesce(u.success, s.success),
                error = coalesce(u.error, s.error), tokens_used = coalesce(u.tokens_used, s.tokens_used),
                cost_usd = coalesce(u.cost_usd, s.cost_usd), progress = coalesce(u.progress, s.progress),
                duration_ms = CASE WHEN u.ended_at IS NULL THEN s.duration_ms
                    ELSE least(2147483647, 1000 * extract(epoch FROM u.ended_at - s.timestamp))::int END,
                last_seq = greatest(s.last_seq, u.last_seq)
            WHERE s.execution_id = p_run AND s.step_number = u.step_number;
        END LOOP;
    END IF;
    IF p_rows ? 'calls' THEN
        INSERT INTO loops_toolcallrecord (
            id, run_id, call_id, provider_call_id, step_number, position, tool, arguments, state, access, reasons,
            attempt, idempotency_key, gate_id, ok, output, output_sha256, error, exit_code, data, started_at, duration_ms,
            sandbox_level)
        SELECT x.id, p_run, x.call_id, x.provider_call_id, x.step_number, x.position, x.tool, x.arguments,
               coalesce(x.state, 'PROPOSED'), coalesce(x.access, ''), coalesce(x.reasons, '[]'), coalesce(x.attempt, 1),
               coalesce(x.idempotency_key, ''), x.gate_id, x.ok, coalesce(x.output, ''), coalesce(x.output_sha256, ''),
               coalesce(x.error, ''), x.exit_code, x.data, x.started_at, coalesce(x.duration_ms, 0),
               coalesce(x.sandbox_level, 0)
        FROM jsonb_to_recordset(p_rows->'calls') AS x(
            id uuid, call_id text, provider_call_id text, step_number int, position int, tool text, arguments jsonb,
            state text, access text, reasons jsonb, attempt int, idempotency_key text, gate_id uuid, ok boolean,
            output text, output_sha256 text, error text, exit_code int, data jsonb, started_at timestamptz,
            duration_ms int, sandbox_level int)
        ON CONFLICT (run_id, call_id) DO NOTHING;
    END IF;
    IF p_rows ? 'call_updates' THEN
        FOR u IN SELECT * FROM jsonb_to_recordset(p_rows->'call_updates') AS r(
            call_id text, state text, access text, reasons jsonb, attempt int, idempotency_key text, gate_id uuid,
            arguments jsonb, ok boolean, output text, output_sha256 text, error text, exit_code int, data jsonb,
            started_at timestamptz, duration_ms int, sandbox_level int)
        LOOP
            UPDATE loops_toolcallrecord c SET
                state = coalesce(u.state, c.state), access = coalesce(u.access, c.access),
                reasons = coalesce(u.reasons, c.reasons), attempt = coalesce(u.attempt, c.attempt),
                idempotency_key = coalesce(u.idempotency_key, c.idempotency_key),
                gate_id = coalesce(u.gate_id, c.gate_id), arguments = coalesce(u.arguments, c.arguments),
                ok = coalesce(u.ok, c.ok), output = coalesce(u.output, c.output),
                output_sha256 = coalesce(u.output_sha256, c.output_sha256), error = coalesce(u.error, c.error),
                exit_code = coalesce(u.exit_code, c.exit_code), data = coalesce(u.data, c.data),
                started_at = coalesce(u.started_at, c.started_at),
                duration_ms = coalesce(u.duration_ms, c.duration_ms),
                sandbox_level = coalesce(u.sandbox_level, c.sandbox_level)
            WHERE c.run_id = p_run AND c.call_id = u.call_id;
        END LOOP;
    END IF;
    IF p_rows ? 'models' THEN
        INSERT INTO loops_modelcall (
            id, run_id, seq, step_number, phase, role, model, provider, model_id, stop_reason, input_tokens,
            output_tokens, cache_read_tokens, cache_write_tokens, cost_microusd, duration_ms, request_sha256, request_id)
        SELECT x.id, p_run, x.seq, x.step_number, x.phase, x.role, x.model, x.provider, x.model_id, x.stop_reason,
               x.input_tokens, x.output_tokens, x.cache_read_tokens, x.cache_write_tokens, x.cost_microusd,
               x.duration_ms, x.request_sha256, x.request_id
        FROM jsonb_to_recordset(p_rows->'models') AS x(
            id uuid, seq bigint, step_number int, phase text, role text, model text, provider text, model_id text,
            stop_reason text, input_tokens int, output_tokens int, cache_read_tokens int, cache_write_tokens int,
            cost_microusd bigint, duration_ms int, request_sha256 text, request_id text)
        ON CONFLICT (run_id, seq) DO NOTHING;
    END IF;
    IF p_rows ? 'artifacts' THEN
        INSERT INTO loops_artifact (id, run_id, seq, kind, name, media_type, sha256, size)
        SELECT x.id, p_run, x.seq, x.kind, x.name, x.media_type, x.sha256, x.size
        FROM jsonb_to_recordset(p_rows->'artifacts') AS x(
            id uuid, seq bigint, kind text, name text, media_type text, sha256 text, size bigint)
        ON CONFLICT DO NOTHING;
    END IF;
    IF p_rows ? 'checkpoint' THEN
        INSERT INTO loops_checkpoint (key, run_id, k, seq, phase, state, created_at)
        SELECT x.key, p_run, x.k, x.seq, x.phase, convert_to(x.state, 'UTF8'), x.at
        FROM jsonb_to_record(p_rows->'checkpoint') AS x(key text, k int, seq bigint, phase text, state text, at timestamptz)
        ON CONFLICT DO NOTHING;
    END IF;
    IF p_rows ? 'snapshot' THEN
        UPDATE agent_execution_history SET state_snapshot = p_rows->'snapshot' WHERE id = p_run;
    END IF;
    IF p_rows ? 'escalation' THEN
        UPDATE agent_execution_history SET escalation_reason = p_rows->>'escalation' WHERE id = p_run;
    END IF;
    IF p_rows ? 'pause' THEN
        UPDATE agent_execution_history SET paused_by = p_rows->'pause'->>'paused_by',
            paused_reason = p_rows->'pause'->>'paused_reason', paused_at = (p_rows->'pause'->>'paused_at')::timestamptz
        WHERE id = p_run;
    END IF;
END $$;

-- Append-only tables: the second wall, behind the role's missing rights (reliability#append-only).
CREATE OR REPLACE FUNCTION refuse_rewriting() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'AO003';
END $$;

-- Rows that are updated a few times each while they are young: leave room so that updates stay on their page (HOT).
ALTER TABLE agent_execution_history SET (fillfactor = 50);
ALTER TABLE agent_execution_steps SET (fillfactor = 60);
ALTER TABLE loops_toolcallrecord SET (fillfactor = 60);

/** What one master holds in the end, as its public interface tells it. */

import type { HandleInfo, OutboxEntry } from '#heat-bridge';
import { type JobReport, type KeyState, readAuditLog } from '#master';
import { runOnce } from './callers.ts';
import type { FactOf } from './history.ts';
import type { LedgerView } from './ledger.ts';
import type { MemberProcess } from './member-process.ts';

/** What a master says of a key of idempotency. */
interface KnownRun {
  readonly id: string;
  readonly status: string;
  readonly isRepeated: boolean;
}

export interface MemberView {
  readonly member: string;
  readonly jobs: ReadonlyMap<string, JobReport>;
  readonly keys: ReadonlyMap<string, KeyState>;
  /** Of the tokens of the histories. */
  readonly validTokens: ReadonlySet<string>;
  readonly handles: ReadonlySet<string>;
  /** Signals that wait, and those that were given up. */
  readonly undelivered: readonly OutboxEntry[];
  readonly runs: ReadonlyMap<string, KnownRun | undefined>;
  readonly ledger: LedgerView;
  /** Job ids that its own audit log has. */
  readonly auditedJobs: ReadonlySet<string>;
}

const listLimit = 100_000;
const concurrency = 16;

/** What was asked for, to be looked up. */
export interface Wanted {
  readonly jids: readonly string[];
  readonly tokens: readonly string[];
  readonly runs: readonly FactOf<'run'>[];
}

/** @param stateDirs - all that it had, of which each has a part of its audit log */
export async function viewOf(
  member: MemberProcess,
  stateDirs: readonly string[],
  wanted: Wanted,
): Promise<MemberView> {
  const { api, bridge, ledger, name } = member;
  const jobs = new Map<string, JobReport>();
  const listed = (await api.jobs.list({ limit: listLimit })).map(({ jid }) => jid);
  await each([...new Set([...listed, ...wanted.jids])], async (jid) => {
    const report = await api.jobs.show(jid).catch(() => undefined);
    if (report !== undefined) jobs.set(jid, report);
  });
  const validTokens = new Set<string>();
  await each(wanted.tokens, async (token) => {
    if (
      await api.logins.identify(token).then(
        () => true,
        () => false,
      )
    )
      validTokens.add(token);
  });
  const runs = new Map<string, KnownRun | undefined>();
  await each(wanted.runs, async ({ key, minion }) => {
    runs.set(key, await runOnce(member, key, minion).catch(() => undefined));
  });
  await api.audit.flush();
  const auditedJobs = new Set<string>();
  for (const stateDir of stateDirs) {
    for await (const { jid } of readAuditLog({ stateDir }, { action: 'job.publish' })) {
      if (jid !== undefined) auditedJobs.add(jid);
    }
  }
  return {
    member: name,
    jobs,
    keys: new Map((await api.keys.list()).map(({ id, state }) => [id, state])),
    validTokens,
    handles: new Set((await bridge.call<HandleInfo[]>('handles.list')).map(({ alias }) => alias)),
    undelivered: await bridge.call<OutboxEntry[]>('outbox.list', { limit: listLimit }),
    runs,
    ledger: await ledger.call<LedgerView>('view'),
    auditedJobs,
  };
}

async function each<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const rest = items.values();
  const workers = Array.from({ length: concurrency }, async () => {
    for (const item of rest) await work(item);
  });
  await Promise.all(workers);
}

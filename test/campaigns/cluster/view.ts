/** The final state of one master, as its public interface reports it. */

import type { HandleInfo, OutboxEntry } from '#heat-bridge';
import { type JobReport, type KeyState, readAuditLog } from '#master';
import { runOnce } from './callers.ts';
import type { FactOf } from './history.ts';
import type { LedgerView } from './ledger.ts';
import type { MemberProcess } from './member-process.ts';

/** State of a run with an idempotency key on a master. */
interface KnownRun {
  readonly id: string;
  readonly status: string;
  readonly isRepeated: boolean;
}

export interface MemberView {
  readonly member: string;
  readonly jobs: ReadonlyMap<string, JobReport>;
  readonly keys: ReadonlyMap<string, KeyState>;
  /** The tokens of the histories that are still valid. */
  readonly validTokens: ReadonlySet<string>;
  readonly handles: ReadonlySet<string>;
  /** Signals that wait, and signals that have failed. */
  readonly undelivered: readonly OutboxEntry[];
  readonly runs: ReadonlyMap<string, KnownRun | undefined>;
  readonly ledger: LedgerView;
  /** Jids in the member's own audit log. */
  readonly auditedJobs: ReadonlySet<string>;
}

const listLimit = 100_000;
const concurrency = 16;

/** Objects of the histories that must be looked up. */
export interface Wanted {
  readonly jids: readonly string[];
  readonly tokens: readonly string[];
  readonly runs: readonly FactOf<'run'>[];
}

/**
 * Reads the state of a master.
 * @param stateDirs - its current and former directories, each of which has a part of its audit log
 */
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

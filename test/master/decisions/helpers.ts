import type { ExecutionContext } from 'ava';
import type { Policy } from '#acl';
import type { AclOptions } from '#config';
import { AuditBursts, createLogger, createSeal } from '#master';
import { noAudit } from '#master/audit/audit-record.ts';
import type { MinionQuestion } from '#master/users/decision-samples.ts';
import { DecisionRecorder } from '#master/users/decisions.ts';
import { PolicyGate } from '#master/users/policy-gate.ts';
import type { WireValue } from '#minion-protocol';
import { createMemoryStore, type Store } from '#store';
import { policyOf } from '../../helpers/policies.ts';

export interface Journal {
  readonly store: Store;
  readonly clock: { now: number };
  readonly recorder: DecisionRecorder;
  readonly gate: PolicyGate;
}

export interface JournalOptions {
  readonly policy?: Policy;
  readonly options?: Pick<AclOptions, 'learnActions' | 'mode'>;
  readonly storesValues?: boolean;
  /** Store of an earlier journal. */
  readonly store?: Store;
}

/** Opens a policy gate whose decisions are recorded. */
export async function openJournal(
  t: ExecutionContext,
  given: JournalOptions = {},
): Promise<Journal> {
  const store = given.store ?? createMemoryStore();
  const clock = { now: 1_700_000_000_000 };
  const recorder = await DecisionRecorder.open({
    store,
    seal: createSeal(new Uint8Array(32)),
    storesValues: () => given.storesValues ?? true,
    now: () => clock.now,
    log: createLogger('quiet'),
  });
  t.teardown(() => recorder.close());
  const policy = given.policy ?? policyOf([]);
  const gate = new PolicyGate({
    policy: { current: policy },
    config: { current: { acl: given.options ?? { mode: 'enforce', learnActions: [] } } },
    ruled: new AuditBursts({ audit: noAudit, now: () => clock.now }),
    recorder,
  });
  return { store, clock, recorder, gate };
}

export function signal(id: string, tag: string, data?: WireValue): MinionQuestion {
  return {
    subject: { kind: 'minion', id },
    action: 'signal',
    resource: { tag, data, bytes: () => 100, wasPublishedToSubject: () => false },
  };
}

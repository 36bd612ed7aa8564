/** Audit records about handles and signals. They do not contain destinations. */

import type { AuditDetails, ExtensionHost } from '#master';
import { groupTexts } from '../group-texts.ts';
import type { HandleInfo } from './handles.ts';
import type { OutboxEntry } from './outbox-entry.ts';
import type { OutboxRecord } from './outbox-records.ts';
import type { OutboxSelection } from './signals-api.ts';

const minionsOf = (entries: readonly OutboxEntry[]): readonly string[] => [
  ...new Set(entries.map(({ minion }) => minion)),
];

export function auditedMinions(handle: HandleInfo): AuditDetails {
  const groups = groupTexts(handle);
  const on = handle.minions;
  return groups.length === 0 ? { on } : { on, detail: `for ${groups.join(', ')}` };
}

export const outboxRecord = {
  done: (selection: OutboxSelection, entries: readonly OutboxEntry[]): AuditDetails => ({
    what: meantBy(selection),
    on: minionsOf(entries),
  }),
  failed: (selection: OutboxSelection): AuditDetails => ({ what: meantBy(selection) }),
};

function meantBy({ id, alias }: OutboxSelection): string {
  return id ?? alias ?? '*';
}

/**
 * Writes the audit record of a permitted signal that expired because no handle was registered in
 * time.
 */
export function auditExpired(
  audit: ExtensionHost['audit'],
  { alias, minion, member }: OutboxRecord,
  detail: string,
): void {
  const what = member === undefined ? `heat/${alias}` : `heat/${alias}/${member}`;
  const who = { kind: 'minion', name: minion } as const;
  audit.append({ who, action: 'signal', what, outcome: 'expired', detail });
}

/**
 * Writes the audit record of a handle that was added or removed because of the metadata of a
 * server.
 */
export function auditStackHandle(
  audit: ExtensionHost['audit'],
  action: 'handle.add' | 'handle.remove',
  what: string,
  on: readonly string[],
): void {
  const who = { kind: 'service', name: 'deployments' } as const;
  audit.append({ who, action, what, on, rule: 'stack-handle', outcome: 'done' });
}

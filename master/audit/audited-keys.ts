import type { KeyChange, KeySelection, KeysApi } from '../api.ts';
import type { KeyChange as KeyTransition } from '../keys/key-table.ts';
import { type AuditTrail, named } from './record.ts';
import { type AuditRequester, auditOf } from './requester.ts';

/** An operation, on what, and who asked for it. */
interface Asked {
  readonly action: string;
  readonly what: string;
  readonly by: AuditRequester | undefined;
}

/** The interface to keys, each operation of which is audited with what came of it. */
export function auditedKeys(keys: KeysApi, audit: AuditTrail): KeysApi {
  const tell = (
    { action, what, by }: Asked,
    ids: readonly string[],
    outcome: 'done' | 'failed',
  ): void => {
    audit.append({ ...auditOf(by, ''), action, what, ...named(ids), outcome });
  };
  const audited =
    (action: string, change: (selection: KeySelection) => Promise<readonly KeyChange[]>) =>
    async ({ by, ...selection }: KeySelection): Promise<readonly KeyChange[]> => {
      const asked = { action, what: selection.match, by };
      try {
        const changes = await change(selection);
        const ids = changes.map(({ id }) => id);
        tell(asked, ids, 'done');
        return changes;
      } catch (error) {
        tell(asked, [], 'failed');
        throw error;
      }
    };
  return {
    ...keys,
    accept: audited('key.accept', keys.accept),
    reject: audited('key.reject', keys.reject),
    delete: audited('key.delete', keys.delete),
    create: async ({ by, ...request }) => {
      const entry = { ...auditOf(by, ''), action: 'key.create', what: request.id };
      try {
        const created = await keys.create(request);
        audit.append({ ...entry, on: created === null ? [] : [request.id], outcome: 'done' });
        return created;
      } catch (error) {
        audit.append({ ...entry, outcome: 'failed' });
        throw error;
      }
    },
    unpin: async (id, by) => {
      await keys.unpin(id);
      tell({ action: 'key.unpin', what: id, by }, [id], 'done');
    },
  };
}

/** What happened to a key, whoever did it: by itself, in the PKI directory, or by an operation. */
export function tellKeyChange(audit: AuditTrail, { id, from, to }: KeyTransition): void {
  const wasOrIsAccepted = from === 'accepted' || to === 'accepted';
  if (!wasOrIsAccepted) return;
  audit.append({
    who: { kind: 'master', name: '' },
    action: to === 'accepted' ? 'key.accepted' : 'key.revoked',
    on: [id],
    outcome: 'done',
    detail: `from ${from ?? 'nowhere'} to ${to ?? 'nowhere'}`,
  });
}

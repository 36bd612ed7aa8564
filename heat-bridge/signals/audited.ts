/** What is done to handles and to the outbox, in the audit log; nothing of a destination. */
import type { AuditRequester, ExtensionHost } from '../../master/index.ts';
import type { OutboxEntry, OutboxRecord } from './outbox-record.ts';
import type { OutboxSelection, SignalsApi } from './signals-api.ts';

/** Whoever may use the local socket, or the program that the master runs in. */
const local: AuditRequester = { who: { kind: 'local', name: '' }, rule: 'local-interface' };

export function audited(
  api: SignalsApi,
  audit: ExtensionHost['audit'],
  by: AuditRequester = local,
): SignalsApi {
  const { handles, outbox } = api;
  const tell = async <T>(
    action: string,
    what: string,
    work: () => Promise<T>,
    on: (result: T) => readonly string[],
  ): Promise<T> => {
    try {
      const result = await work();
      audit.append({ ...by, action, what, on: on(result), outcome: 'done' });
      return result;
    } catch (error) {
      audit.append({ ...by, action, what, outcome: 'failed' });
      throw error;
    }
  };
  const minionsOf = (entries: readonly OutboxEntry[]): readonly string[] => [
    ...new Set(entries.map(({ minion }) => minion)),
  ];
  const meant = ({ id, alias }: OutboxSelection): string => id ?? alias ?? '*';
  return {
    handles: {
      ...handles,
      add: (registration, options) =>
        tell(
          'handle.add',
          String(registration.alias),
          () => handles.add(registration, options),
          ({ minions }) => minions,
        ),
      remove: (alias, of) =>
        tell(
          'handle.remove',
          alias,
          () => handles.remove(alias, of),
          ({ minions }) => minions,
        ),
    },
    outbox: {
      ...outbox,
      retry: (selection) =>
        tell('outbox.retry', meant(selection), () => outbox.retry(selection), minionsOf),
      drop: (selection) =>
        tell('outbox.drop', meant(selection), () => outbox.drop(selection), minionsOf),
    },
  };
}

/** A signal that was permitted, and that no handle was registered for in time. */
export function auditExpired(
  audit: ExtensionHost['audit'],
  { alias, minion, member }: OutboxRecord,
  detail: string,
): void {
  const what = member === undefined ? `heat/${alias}` : `heat/${alias}/${member}`;
  const who = { kind: 'minion', name: minion } as const;
  audit.append({ who, action: 'signal', what, outcome: 'expired', detail });
}

/** Lists, retries and drops entries of the outbox. */

import { BridgeError } from '../errors.ts';
import type { DeliveryWorker } from './delivery-worker.ts';
import type { HandleRegistry } from './handles.ts';
import type { Outbox, PendingSignal } from './outbox.ts';
import { type OutboxEntry, outboxEntryOf } from './outbox-entry.ts';
import type { OutboxApi, OutboxSelection } from './signals-api.ts';

export interface OutboxApiDeps {
  readonly outbox: Outbox;
  readonly courier: Pick<DeliveryWorker, 'stateOf'>;
  readonly handles: HandleRegistry;
}

const defaultListLimit = 1_000;

export function createOutboxApi({ outbox, courier, handles }: OutboxApiDeps): OutboxApi {
  const pendingOf = (selection: OutboxSelection): readonly PendingSignal[] =>
    outbox.pendingOf((it) => matchesSelection(it, selection));
  return {
    list: async (selection = {}) => {
      const { isDead, isDelivered, limit = defaultListLimit } = selection;
      if (isDelivered === true) {
        const delivered = await outbox.delivered.list();
        return delivered.filter((it) => matchesSelection(it, selection)).slice(0, limit);
      }
      const entries: OutboxEntry[] = [];
      if (isDead !== false) {
        for await (const dead of outbox.dead.select(selection)) {
          entries.push(outboxEntryOf(dead, 'dead', dead));
          if (entries.length >= limit) return entries;
        }
      }
      if (isDead === true) return entries;
      const pending = pendingOf(selection).slice(0, limit - entries.length);
      for await (const [it, record] of outbox.describe(pending)) {
        const { state, ...more } = courier.stateOf(it);
        if (record !== undefined) entries.push(outboxEntryOf(record, state, more));
      }
      return entries;
    },
    retry: async (selection) => {
      const revived: OutboxEntry[] = [];
      for await (const { id, alias, handle: handleId, minion } of outbox.dead.select(selection)) {
        const handle =
          handleId === undefined ? handles.findFor(alias, minion) : handles.find(handleId);
        if (handle === undefined) throw handleGoneError(alias);
        revived.push(outboxEntryOf(await outbox.requeue(id, handle), 'waiting'));
      }
      requireFound(revived, selection);
      return revived;
    },
    drop: async (selection) => {
      const dropped: OutboxEntry[] = [];
      for await (const dead of outbox.dead.select(selection)) {
        await outbox.dead.remove(dead.id);
        dropped.push(outboxEntryOf(dead, 'dead', dead));
      }
      for await (const [pending, record] of outbox.describe(pendingOf(selection))) {
        await outbox.remove(pending);
        if (record !== undefined) dropped.push(outboxEntryOf(record, 'waiting'));
      }
      requireFound(dropped, selection);
      return dropped;
    },
  };
}

function matchesSelection(
  record: Pick<PendingSignal, 'alias' | 'id'> & { readonly owner?: string | undefined },
  { id, alias, owner }: OutboxSelection,
): boolean {
  return (
    (id === undefined || id === record.id) &&
    (alias === undefined || alias === record.alias) &&
    (owner === undefined || owner === record.owner)
  );
}

function requireFound(found: readonly unknown[], { id }: OutboxSelection): void {
  if (id === undefined || found.length > 0) return;
  throw new BridgeError(
    'ERR_SIGNAL_UNKNOWN',
    'no undelivered signal has this id; saltbridge bridge outbox list prints the ids',
  );
}

function handleGoneError(alias: string): BridgeError {
  return new BridgeError('ERR_HANDLE_UNKNOWN', `${alias}: the handle of the signal was removed`);
}

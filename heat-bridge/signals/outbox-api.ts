/** Lists, retries and drops entries of the outbox. */

import { BridgeError } from '../errors.ts';
import type { DeliveryWorker } from './delivery-worker.ts';
import type { HandleRegistry } from './handles.ts';
import type { Outbox, PendingSignal } from './outbox.ts';
import { type OutboxEntry, outboxEntryOf } from './outbox-entry.ts';
import type { DeadLetter } from './outbox-records.ts';
import type { OutboxApi, OutboxSelection } from './signals-api.ts';

export interface OutboxApiDeps {
  readonly outbox: Outbox;
  readonly courier: Pick<DeliveryWorker, 'stateOf'>;
  readonly handles: HandleRegistry;
}

const defaultListLimit = 1_000;

export function createOutboxApi({ outbox, courier, handles }: OutboxApiDeps): OutboxApi {
  const deadOf = async (selection: OutboxSelection): Promise<readonly DeadLetter[]> =>
    (await outbox.dead.list()).filter((it) => matchesSelection(it, selection));
  const pendingOf = (selection: OutboxSelection): readonly PendingSignal[] =>
    outbox.pending.filter((it) => matchesSelection(it, selection));
  return {
    list: async (selection = {}) => {
      const { isDead, isDelivered, limit = defaultListLimit } = selection;
      if (isDelivered === true) {
        const delivered = await outbox.delivered.list();
        return delivered.filter((it) => matchesSelection(it, selection)).slice(0, limit);
      }
      const dead = isDead === false ? [] : await deadOf(selection);
      const entries = dead.slice(0, limit).map((it) => outboxEntryOf(it, 'dead', it));
      if (isDead === true) return entries;
      for (const pending of pendingOf(selection).slice(0, limit - entries.length)) {
        const record = await outbox.read(pending);
        const { state, ...more } = courier.stateOf(pending);
        if (record !== undefined) entries.push(outboxEntryOf(record, state, more));
      }
      return entries;
    },
    retry: async (selection) => {
      const dead = await deadOf(selection);
      requireFound(dead, selection);
      const revived: OutboxEntry[] = [];
      for (const { id, alias, handle: handleId, minion } of dead) {
        const handle =
          handleId === undefined ? handles.findFor(alias, minion) : handles.find(handleId);
        if (handle === undefined) throw handleGoneError(alias);
        revived.push(outboxEntryOf(await outbox.requeue(id, handle), 'waiting'));
      }
      return revived;
    },
    drop: async (selection) => {
      const dropped: OutboxEntry[] = [];
      for (const record of await deadOf(selection)) {
        await outbox.dead.remove(record.id);
        dropped.push(outboxEntryOf(record, 'dead', record));
      }
      for (const pending of pendingOf(selection)) {
        const record = await outbox.read(pending);
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

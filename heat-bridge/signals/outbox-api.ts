/** The outbox as an operator has it. */
import { BridgeError } from '../errors.ts';
import type { Courier } from './courier.ts';
import type { Handles } from './handles.ts';
import type { Outbox, Pending } from './outbox.ts';
import { type DeadRecord, entryOf, type OutboxEntry } from './outbox-record.ts';
import type { OutboxApi, OutboxSelection } from './signals-api.ts';

/** What {@link createOutboxApi} works with. */
export interface OutboxApiParts {
  readonly outbox: Outbox;
  readonly courier: Courier;
  readonly handles: Handles;
}

const usualLimit = 1_000;

export function createOutboxApi({ outbox, courier, handles }: OutboxApiParts): OutboxApi {
  const deadOf = async (selection: OutboxSelection): Promise<readonly DeadRecord[]> =>
    (await outbox.dead.list()).filter((it) => isMeant(it, selection));
  const pendingOf = (selection: OutboxSelection): readonly Pending[] =>
    outbox.pending.filter((it) => isMeant(it, selection));
  return {
    list: async (selection = {}) => {
      const { isDead, limit = usualLimit } = selection;
      const dead = isDead === false ? [] : await deadOf(selection);
      const entries = dead.slice(0, limit).map((it) => entryOf(it, 'dead', it));
      if (isDead === true) return entries;
      for (const pending of pendingOf(selection).slice(0, limit - entries.length)) {
        const record = await outbox.read(pending);
        const { state, ...more } = courier.stateOf(pending);
        if (record !== undefined) entries.push(entryOf(record, state, more));
      }
      return entries;
    },
    retry: async (selection) => {
      const dead = await deadOf(selection);
      refuseUnknown(dead, selection);
      const revived: OutboxEntry[] = [];
      for (const { id, alias, handle: handleId, minion } of dead) {
        const handle =
          handleId === undefined ? handles.findFor(alias, minion) : handles.find(handleId);
        if (handle === undefined) throw handleGone(alias);
        revived.push(entryOf(await outbox.revive(id, handle), 'waiting'));
      }
      return revived;
    },
    drop: async (selection) => {
      const dropped: OutboxEntry[] = [];
      for (const record of await deadOf(selection)) {
        await outbox.dead.remove(record.id);
        dropped.push(entryOf(record, 'dead', record));
      }
      for (const pending of pendingOf(selection)) {
        const record = await outbox.read(pending);
        await outbox.remove(pending);
        if (record !== undefined) dropped.push(entryOf(record, 'waiting'));
      }
      refuseUnknown(dropped, selection);
      return dropped;
    },
  };
}

function isMeant(
  record: Pick<Pending, 'alias' | 'id'> & { readonly owner?: string | undefined },
  { id, alias, owner }: OutboxSelection,
): boolean {
  return (
    (id === undefined || id === record.id) &&
    (alias === undefined || alias === record.alias) &&
    (owner === undefined || owner === record.owner)
  );
}

function refuseUnknown(found: readonly unknown[], { id }: OutboxSelection): void {
  if (id === undefined || found.length > 0) return;
  throw new BridgeError(
    'ERR_SIGNAL_UNKNOWN',
    'no signal of this id; outbox list shows those there are',
  );
}

function handleGone(alias: string): BridgeError {
  return new BridgeError('ERR_HANDLE_UNKNOWN', `${alias}: the handle of the signal is gone`);
}

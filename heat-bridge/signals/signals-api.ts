/** Interfaces to handles and the outbox: for programs, at the local socket, with audit records. */

import Type from 'typebox';
import { type AuditDetails, type ExtensionHost, extensionMethod, type RpcTable } from '#master';
import { BridgeError } from '../errors.ts';
import { groupTexts } from '../handle-group-texts.ts';
import type { OutboxDelivery } from './delivery-worker.ts';
import type { HandleInfo, HandleRegistration, HandleRegistry } from './handles.ts';
import type { Outbox, PendingSignal } from './outbox.ts';
import { type OutboxEntry, outboxEntryOf } from './outbox-entry.ts';
import type { DeadLetter, OutboxRecord } from './outbox-records.ts';

/** The handles that minions may signal. */
export interface HandlesApi {
  /**
   * Registers a handle; durable when it resolves. Signals for an endpoint that is not listed end in
   * the dead-letter list: `isListed` says so before.
   * Signals that came before it, and are held for it, are delivered.
   * @throws BridgeError ERR_HANDLE_FORM, ERR_HANDLE_EXISTS (unless it `replaces` one of this owner),
   * ERR_HANDLE_LIMIT
   */
  add(
    registration: HandleRegistration,
    options?: { readonly replaces?: boolean },
  ): Promise<HandleInfo>;
  /** By alias; those that ended are shown for a day. */
  list(selection?: HandleOwner): Promise<readonly HandleInfo[]>;
  /** @throws BridgeError ERR_HANDLE_UNKNOWN, ERR_HANDLE_AMBIGUOUS */
  show(alias: string, of?: HandleOwner): Promise<HandleInfo>;
  /**
   * Forgets a handle and its secrets. What waits for it goes to the dead-letter list.
   * @throws BridgeError ERR_HANDLE_UNKNOWN, ERR_HANDLE_AMBIGUOUS
   */
  remove(alias: string, of?: HandleOwner): Promise<HandleInfo>;
}

/** Whose handle of an alias is meant. Default: anybody's; several are ERR_HANDLE_AMBIGUOUS. */
interface HandleOwner {
  readonly owner?: string;
}

/** Which entries of the outbox are meant: one, those of an alias or of an owner's handles, or all. */
interface OutboxSelection extends HandleOwner {
  readonly id?: string;
  readonly alias?: string;
}

/** The signals that are on their way, and those that were given up. */
export interface OutboxApi {
  /** Those that are over first, then the others, the oldest first. At most `limit` (1,000). */
  list(
    selection?: OutboxSelection & {
      readonly isDead?: boolean;
      /** Those that were delivered within a day instead, the latest first. */
      readonly isDelivered?: boolean;
      readonly limit?: number;
    },
  ): Promise<readonly OutboxEntry[]>;
  /**
   * Puts signals of the dead-letter list behind the others of their handle; those that were held in
   * vain, behind the others of the handle that is registered for them now.
   * @returns those that are tried again
   * @throws BridgeError ERR_SIGNAL_UNKNOWN, ERR_SIGNAL_QUOTA, ERR_HANDLE_UNKNOWN where the handle is
   * gone
   */
  retry(selection: OutboxSelection): Promise<readonly OutboxEntry[]>;
  /**
   * Forgets signals, also those that wait.
   * @throws BridgeError ERR_SIGNAL_UNKNOWN
   */
  drop(selection: OutboxSelection): Promise<readonly OutboxEntry[]>;
}

export interface SignalsApi {
  readonly handles: HandlesApi;
  readonly outbox: OutboxApi;
}

// The interface to the outbox.

export interface OutboxApiDeps {
  readonly outbox: Outbox;
  readonly courier: Pick<OutboxDelivery, 'stateOf'>;
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
    'no signal of this id; outbox list shows those there are',
  );
}

function handleGoneError(alias: string): BridgeError {
  return new BridgeError('ERR_HANDLE_UNKNOWN', `${alias}: the handle of the signal is gone`);
}

// Audit records, without destinations.

const minionsOf = (entries: readonly OutboxEntry[]): readonly string[] => [
  ...new Set(entries.map(({ minion }) => minion)),
];

function auditedMinions(handle: HandleInfo): AuditDetails {
  const groups = groupTexts(handle);
  const on = handle.minions;
  return groups.length === 0 ? { on } : { on, detail: `for ${groups.join(', ')}` };
}

const outboxRecord = {
  done: (selection: OutboxSelection, entries: readonly OutboxEntry[]): AuditDetails => ({
    what: meantBy(selection),
    on: minionsOf(entries),
  }),
  failed: (selection: OutboxSelection): AuditDetails => ({ what: meantBy(selection) }),
};

function meantBy({ id, alias }: OutboxSelection): string {
  return id ?? alias ?? '*';
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

// Handles and outbox at the master's local socket.

const strict = { additionalProperties: false };
const Text = Type.String({ minLength: 1, maxLength: 256 });
const ownerField = { owner: Type.Optional(Text) };
const Alias = Type.Object({ alias: Text, ...ownerField }, strict);
const selectionFields = { id: Type.Optional(Text), alias: Type.Optional(Text), ...ownerField };
const Selection = Type.Object(selectionFields, strict);
/** `handles.add` looks at it more closely. */
const Registration = Type.Unsafe<HandleRegistration>(Type.Object({ alias: Text }));

/** The methods, called there as `bridge.handles.add` and so on. */
export function signalMethods({ handles, outbox }: SignalsApi): RpcTable {
  return {
    handles: {
      add: extensionMethod({
        parameters: Type.Object(
          { registration: Registration, replaces: Type.Optional(Type.Boolean()) },
          strict,
        ),
        args: (registration: HandleRegistration, options?: { readonly replaces?: boolean }) => ({
          registration,
          ...options,
        }),
        call: (_api, { registration, replaces = false }) => handles.add(registration, { replaces }),
        audit: {
          action: 'handle.add',
          done: ({ registration: { alias } }, handle) => ({
            what: String(alias),
            ...auditedMinions(handle),
          }),
          failed: ({ registration: { alias } }) => ({ what: String(alias) }),
        },
      }),
      list: extensionMethod({
        parameters: Type.Object(ownerField, strict),
        call: (_api, p) => handles.list(p),
      }),
      show: extensionMethod({
        parameters: Alias,
        call: (_api, { alias, ...of }) => handles.show(alias, of),
      }),
      remove: extensionMethod({
        parameters: Alias,
        args: (alias: string, of?: HandleOwner) => ({ alias, ...of }),
        call: (_api, { alias, ...of }) => handles.remove(alias, of),
        audit: {
          action: 'handle.remove',
          done: ({ alias }, handle) => ({ what: alias, ...auditedMinions(handle) }),
          failed: ({ alias }) => ({ what: alias }),
        },
      }),
    },
    outbox: {
      list: extensionMethod({
        parameters: Type.Object(
          {
            ...selectionFields,
            isDead: Type.Optional(Type.Boolean()),
            isDelivered: Type.Optional(Type.Boolean()),
            limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 100_000 })),
          },
          strict,
        ),
        call: (_api, p) => outbox.list(p),
      }),
      retry: extensionMethod({
        parameters: Selection,
        call: (_api, p) => outbox.retry(p),
        audit: { action: 'outbox.retry', ...outboxRecord },
      }),
      drop: extensionMethod({
        parameters: Selection,
        call: (_api, p) => outbox.drop(p),
        audit: { action: 'outbox.drop', ...outboxRecord },
      }),
    },
  };
}

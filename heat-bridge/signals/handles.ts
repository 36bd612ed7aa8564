/** Registry of handles. Their secrets are stored encrypted, and are not kept in memory. */

import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import Type, { type Static } from 'typebox';
import type { SharedArea, StateChange, StateOperation } from '#master';
import {
  Budget,
  type BudgetLimits,
  KeyedMutex,
  MultiMap,
  originOf,
  unlimitedSteps,
  WorkBudget,
} from '#runtime';
import { defineRow, fromJson, type RowOf, Texts } from '#store';
import { BridgeError } from '../errors.ts';
import { bridgeLimits } from '../limits.ts';
import { ownerNameOfProject, projectOfOwner } from '../owner-name.ts';
import { PendingRegistrations, type RegistrationChecks } from '../registrations.ts';
import { SharedNames } from '../shared-names.ts';
import {
  addressOf,
  type Destination,
  handleForms,
  parseDestination,
  type Transport,
} from '../transports/transports.ts';
import {
  compileGroups,
  type GroupMembership,
  groupsOf,
  type HandleGroups,
  isForGroups,
} from './handle-groups.ts';
import { type HandleRegistration, parseHandleRegistration } from './handle-registration.ts';

const Text = Type.String();

/** Milliseconds since 1970. */
const Time = Type.Number();

const storedFields = {
  alias: Text,
  /**
   * Id of the handle. If a handle with the same alias is registered later, it has another id, and
   * does not receive the signals of this handle.
   */
  id: Text,
  transport: Type.Unsafe<Transport>(Type.String({ description: handleForms })),
  /** Scheme, host and port of the service to which signals are sent. */
  origin: Text,
  minions: Texts,
  globs: Type.Optional(Texts),
  nodegroups: Type.Optional(Texts),
  projects: Type.Optional(Texts),
  members: Texts,
  emptyIsSuccess: Type.Optional(Type.Boolean()),
  stack: Text,
  owner: Type.Optional(Text),
  registeredAt: Time,
  expiresAt: Time,
};

/** Handle without its secrets. */
export const HandleSchema = Type.Object({
  ...storedFields,
  /** Whether an event without data means SUCCESS. */
  emptyIsSuccess: Type.Boolean(),
  /**
   * Whether the configuration lists the service as an endpoint. Signals are sent to listed
   * endpoints only.
   */
  isListed: Type.Boolean(),
});

/** Handle without its secrets; {@link HandleSchema} documents its fields. */
export type HandleInfo = Readonly<Static<typeof HandleSchema>>;

/**
 * Returns why a signal for this handle is rejected, or `undefined` if it is accepted.
 * @param now - milliseconds since 1970
 */
export function signalRefusalOf(
  { members, expiresAt }: HandleInfo,
  member: string | undefined,
  now: number,
): 'expired' | 'member' | undefined {
  const isMember = member === undefined ? members.length === 0 : members.includes(member);
  if (!isMember) return 'member';
  return expiresAt <= now ? 'expired' : undefined;
}

const signalTagForm = /^heat\/([A-Za-z0-9][\w.-]{0,63})(?:\/([A-Za-z0-9][\w.-]{0,63}))?$/;

/**
 * Parses a tag `heat/<alias>` or `heat/<alias>/<member>`. Returns `undefined` for any other tag.
 */
export function parseSignalTag(
  tag: string,
): { readonly alias: string; readonly member: string | undefined } | undefined {
  const [, alias, member] = signalTagForm.exec(tag) ?? [];
  return alias === undefined ? undefined : { alias, member };
}

export interface HandleRegistryOptions {
  readonly state: SharedArea;
  /**
   * Endpoints that the configuration lists, by origin (scheme, host and port). Signals are sent to
   * no other services.
   */
  readonly endpoints: Pick<ReadonlyMap<string, unknown>, 'has'>;
  readonly membership: GroupMembership;
  /** Validity of a handle without `expiresAt`, in milliseconds. */
  readonly handleTtlMs: number;
  /**
   * Limits on the stored size of all handles together, and of the handles of one owner, in bytes.
   */
  readonly bytes: BudgetLimits;
  readonly now: () => number;
}

/** Work to check one minion of a registration, in steps of a {@link WorkBudget}. */
const stepsPerMinion = 50;

/** Time for which an expired handle remains listed, in milliseconds. */
const endedHandleRetentionMs = 86_400_000;

type HandleFields = Omit<HandleInfo, 'emptyIsSuccess' | 'isListed'> &
  Pick<HandleRegistration, 'emptyIsSuccess'>;

/** Format of the rows with the keys `signals/handles/<alias>/<id>`. */
const handleRow = defineRow({
  name: 'handle',
  schema: Type.Object({
    plain: Type.Object(storedFields),
    /**
     * Time at which the groups of the handle were registered, in milliseconds since 1970. If a
     * minion belongs to groups of several handles with one alias, the handle with the earliest time
     * receives its signals. Absent if the handle has no groups.
     */
    claimedAt: Type.Optional(Time),
    /** Encrypted destination in base64. */
    sealed: Type.String(),
  }),
  unversioned: fromJson,
});

/** Format of the destination of a handle, before it is encrypted. */
const destinationRow = defineRow({
  name: 'destination',
  schema: Type.Unsafe<Destination>(Type.Object({ transport: Type.String() })),
  unversioned: fromJson,
});

type StoredHandle = RowOf<typeof handleRow>;

interface HandleRow extends StoredHandle {
  readonly key: readonly string[];
  readonly bytes: number;
  /** Whether a minion belongs to a group of the handle now. */
  readonly isInGroups: (minion: string) => boolean;
}

/**
 * Registration of a handle from the metadata of a server in a stack. The handle is for the minion
 * of this server.
 */
export interface HandleClaim
  extends Required<Pick<HandleRegistration, 'alias' | 'emptyIsSuccess' | 'signal' | 'stack'>>,
    Pick<HandleRegistration, 'owner'>,
    RegistrationChecks {
  readonly minion: string;
  /**
   * Called if the minion already belongs to another handle with the same alias. Returns whether to
   * move the minion to the new handle.
   * @param handle - the handle to which the minion has belonged so far
   */
  readonly takesFrom: (handle: HandleInfo) => boolean;
}

interface NewHandle {
  readonly destination: Destination;
  /** Handle that the new handle replaces, or `undefined`. */
  readonly before: HandleRow | undefined;
  /** Store operations that are executed in one transaction with the registration of the handle. */
  readonly steps: readonly StateOperation[];
}

/**
 * Registry of handles. A handle lists minions, or it names groups of minions. For each alias, a
 * stack can have one handle that lists minions, and an owner can have one handle that names groups.
 * A minion must not be listed in a new handle if it already belongs to a valid handle with the same
 * alias. This applies even if that handle has another owner. A new handle that names groups replaces
 * the expired ones of its owner with the same alias.
 *
 * Minions can join a group after its handle was registered. Therefore a minion can belong to
 * several handles with one alias. If one of them lists the minion, it receives the signals of the
 * minion. Otherwise, the handle whose groups were registered first receives them.
 *
 * The members of a cluster share the handles, and each member applies the writes of the others.
 */
export class HandleRegistry {
  readonly #options: HandleRegistryOptions;
  readonly #rows = new Map<string, HandleRow>();
  readonly #byAlias = new MultiMap<string, HandleRow>();
  readonly #byOwner = new MultiMap<string | undefined, HandleRow>();
  readonly #byMinion = new Map<string, HandleRow>();
  /**
   * Handles for groups of minions, by {@link groupsKey}: alias, and the project that is the owner.
   * The handles of a key are in the order in which their groups were registered.
   */
  readonly #forGroups = new Map<string, readonly HandleRow[]>();
  /** Counts the steps of the tests of groups. */
  readonly #work = new WorkBudget({ ...unlimitedSteps, bytes: Infinity });
  readonly #bytes: Budget;
  /** Runs changes of handles with the same alias one after the other. */
  readonly #changes = new KeyedMutex();
  readonly #pending = new PendingRegistrations();
  /** Ensures that the members of a cluster change the handles of one alias one after the other. */
  readonly #names: SharedNames;
  #onFollowed: (id: string) => void = () => {};

  private constructor(options: HandleRegistryOptions, names: SharedNames) {
    this.#options = options;
    this.#names = names;
    this.#bytes = new Budget(bridgeLimits.handleBytes, {
      ...bridgeLimits.handleBytes,
      ...options.bytes,
    });
  }

  /** Opens the registry with the stored handles. */
  static async open(options: HandleRegistryOptions): Promise<HandleRegistry> {
    const { state } = options;
    const names = await SharedNames.open(state, 'handle-names');
    const handles = new HandleRegistry(options, names);
    await state.follow(['signals', 'handles'], (change) => handles.#note(change));
    return handles;
  }

  /**
   * Sets the listener that receives the id of each changed or removed handle. In a cluster, this
   * includes the changes of all members.
   */
  set onFollowed(listener: (id: string) => void) {
    this.#onFollowed = listener;
  }

  /**
   * Registers a handle. Resolves when it is durable.
   * @param replaces - whether the new handle may replace a handle with the same alias and owner.
   * Replace a handle to change its minions, its keys or its expiry. Both handles must have the same
   * stack or a common minion
   * @throws BridgeError ERR_HANDLE_FORM, ERR_HANDLE_EXISTS, ERR_HANDLE_LIMIT
   */
  async add(
    registration: HandleRegistration,
    replaces = false,
    checks: RegistrationChecks = {},
  ): Promise<HandleInfo> {
    const { signal, ...rest } = parseHandleRegistration(registration);
    const destination = parseDestination(signal);
    const { alias } = rest;
    return this.#changes.run(alias, () =>
      this.#names.decide([alias], async (steps) => {
        this.#forgetEnded();
        const before = this.#rowInPlaceOf(rest, replaces);
        if (before !== undefined && !replaces) throw aliasTakenError(alias);
        await this.#refuseOthers(rest, before);
        return this.#pending.store(checks, () => this.#add(rest, { destination, before, steps }));
      }),
    );
  }

  /**
   * Registers a handle for one more minion of a stack. Resolves when the registration is durable.
   * Servers of a stack that name the same destination share one handle, so that their signals are
   * delivered in order.
   * @throws BridgeError ERR_HANDLE_FORM, ERR_HANDLE_EXISTS, ERR_HANDLE_LIMIT
   */
  async claim({
    minion,
    takesFrom,
    requirePermission,
    ...claim
  }: HandleClaim): Promise<HandleInfo> {
    const registration = parseHandleRegistration({ ...claim, minions: [minion] });
    const { signal, ...rest } = registration;
    const destination = parseDestination(signal);
    const { alias } = claim;
    const isSame = (row: HandleRow): boolean =>
      row.plain.owner === claim.owner &&
      row.plain.stack === claim.stack &&
      this.#leadsTo(row, destination);
    const listing = this.#byMinion.get(minionKey(alias, minion));
    if (listing !== undefined && !isSame(listing) && takesFrom(this.#infoOf(listing))) {
      await this.#change(listing, (row) => withoutMinion(row, minion));
    }
    return this.#changes.run(alias, () =>
      this.#names.decide([alias], async (steps) => {
        this.#forgetEnded();
        const before = [...this.#byAlias.get(alias)].find(isSame);
        const minions = [...new Set([...(before?.plain.minions ?? []), minion])];
        const handle = { ...rest, minions };
        await this.#refuseOthers(handle, before);
        return this.#pending.store({ requirePermission }, () =>
          this.#add(handle, { destination, before, steps }),
        );
      }),
    );
  }

  /**
   * Removes a minion from the handles of a stack. Handles without minions are then removed too.
   * Resolves when the changes are durable.
   * @param minion - minion to remove; default: all minions, which removes all handles of the stack
   * @param keeps - aliases of handles that do not change
   * @returns the removed handles
   */
  async withdraw(
    { owner, stack }: Pick<HandleInfo, 'owner' | 'stack'>,
    minion?: string,
    keeps: readonly string[] = [],
  ): Promise<readonly HandleInfo[]> {
    await this.#pending.settled();
    const rows = [...this.#byOwner.get(owner)].filter(
      ({ plain }) =>
        plain.stack === stack &&
        !keeps.includes(plain.alias) &&
        (minion === undefined || plain.minions.includes(minion)),
    );
    await Promise.all(
      rows.map((row) =>
        this.#change(row, (it) => (minion === undefined ? undefined : withoutMinion(it, minion))),
      ),
    );
    return rows.filter(({ plain }) => !this.#rows.has(plain.id)).map((row) => this.#infoOf(row));
  }

  /**
   * Returns the handle with this alias.
   * @param owner - default: any owner, if only one owner has a handle with the alias
   * @param stack - default: any stack, if only one stack has a handle with the alias
   * @throws BridgeError ERR_HANDLE_UNKNOWN, ERR_HANDLE_AMBIGUOUS
   */
  show(alias: string, owner?: string, stack?: string): HandleInfo {
    return this.#infoOf(this.#rowOf(alias, owner, stack));
  }

  /** Returns the handle with this id, or `undefined`. */
  find(id: string): HandleInfo | undefined {
    const row = this.#rows.get(id);
    return row && this.#infoOf(row);
  }

  /**
   * Returns the handle that receives the signals of a minion for an alias, or `undefined` if none
   * is registered. An expired handle is returned only if there is no valid one.
   */
  findFor(alias: string, minion: string): HandleInfo | undefined {
    const now = this.#options.now();
    const listing = this.#byMinion.get(minionKey(alias, minion));
    if (listing !== undefined && isValid(listing, now)) return this.#infoOf(listing);
    const forGroups = this.#groupHandlesFor(alias, minion);
    const row =
      forGroups.find((it) => isValid(it, now) && it.isInGroups(minion)) ??
      listing ??
      forGroups.find((it) => !isValid(it, now) && it.isInGroups(minion));
    return row && this.#infoOf(row);
  }

  /**
   * Returns the handles, sorted by alias.
   * @param owner - owner of the handles; default: any
   */
  list(owner?: string): readonly HandleInfo[] {
    this.#forgetEnded();
    const rows = owner === undefined ? this.#rows.values() : this.#byOwner.get(owner);
    const infos = Array.from(rows, (row) => this.#infoOf(row));
    return infos.sort((a, b) => (a.alias < b.alias ? -1 : 1));
  }

  /**
   * Returns the destination of a handle, with its secrets. It must only be used to send a signal,
   * and must not be stored.
   * @param id - id of the handle
   * @throws MasterError ERR_SEAL, BridgeError ERR_HANDLE_UNKNOWN
   */
  destinationOf(id: string): Destination {
    const row = this.#rows.get(id);
    if (row === undefined) throw unknownHandleError(id);
    const value = this.#options.state.unseal(Buffer.from(row.sealed, 'base64'));
    return destinationRow.decode({ key: row.key, value });
  }

  /**
   * Removes a handle with its secrets. Resolves when the removal is durable.
   * @throws BridgeError ERR_HANDLE_UNKNOWN, ERR_HANDLE_AMBIGUOUS
   */
  async remove(alias: string, owner?: string, stack?: string): Promise<HandleInfo> {
    return this.#changes.run(alias, () =>
      this.#names.decide([alias], async (steps) => {
        const row = this.#rowOf(alias, owner, stack);
        await this.#delete(row, steps);
        return this.#infoOf(row);
      }),
    );
  }

  /**
   * Whether a handle has this destination. Returns false if its destination cannot be decrypted.
   */
  #leadsTo({ plain }: HandleRow, destination: Destination): boolean {
    try {
      return isDeepStrictEqual(this.destinationOf(plain.id), destination);
    } catch {
      return false;
    }
  }

  async #delete(row: HandleRow, steps: readonly StateOperation[]): Promise<void> {
    await this.#options.state.write([{ op: 'delete', key: row.key }, ...steps]);
    this.#drop(row);
  }

  /**
   * Changes a handle. Until the change is complete, other handles with the same alias cannot
   * change.
   * @param change - returns the changed handle, or `undefined` to remove it. A handle without
   * minions and groups is removed too
   */
  #change(
    { plain: { id, alias } }: HandleRow,
    change: (row: HandleRow) => HandleRow | undefined,
  ): Promise<void> {
    return this.#changes.run(alias, () =>
      this.#names.decide([alias], async (steps) => {
        const row = this.#rows.get(id);
        if (row === undefined) return;
        const next = change(row);
        if (next === undefined || (next.plain.minions.length === 0 && !isForGroups(next.plain))) {
          await this.#delete(row, steps);
        } else {
          await this.#write(next, row, steps);
        }
      }),
    );
  }

  /**
   * Removes a retired minion from handles. Resolves when the change is durable.
   * @param owner - owner of the handles; default: all handles
   */
  async dismiss(minion: string, owner?: string): Promise<void> {
    await this.#pending.settled();
    const rows = owner === undefined ? this.#rows.values() : this.#byOwner.get(owner);
    const naming = [...rows].filter(({ plain }) => plain.minions.includes(minion));
    await Promise.all(
      naming.map(({ plain: { id, alias } }) =>
        this.#changes.run(alias, () =>
          this.#names.decide([alias], async (steps) => {
            const row = this.#rows.get(id);
            if (row !== undefined) await this.#write(withoutMinion(row, minion), row, steps);
          }),
        ),
      ),
    );
  }

  async #add(
    rest: Omit<HandleRegistration, 'signal'>,
    { destination, before, steps }: NewHandle,
  ): Promise<HandleInfo> {
    const { now, handleTtlMs, state, membership } = this.#options;
    const {
      alias,
      minions = [],
      members = [],
      emptyIsSuccess = false,
      stack = alias,
      owner,
      expiresAt = now() + handleTtlMs,
    } = rest;
    if (expiresAt <= now())
      throw new BridgeError('ERR_HANDLE_FORM', 'expiresAt: must be in the future');
    const unknown = rest.nodegroups?.find((name) => !membership.hasNodegroup(name));
    if (unknown !== undefined) {
      const text = `nodegroups: unknown nodegroup ${JSON.stringify(unknown)}; define it in the configuration`;
      throw new BridgeError('ERR_HANDLE_FORM', text);
    }
    const id = before?.plain.id ?? randomUUID();
    const plain: HandleFields = {
      alias,
      id,
      transport: destination.transport,
      origin: originOf(addressOf(destination)),
      minions: [...minions],
      ...groupsOf(rest),
      members: [...members],
      emptyIsSuccess,
      stack,
      ...(owner === undefined ? {} : { owner }),
      registeredAt: now(),
      expiresAt,
    };
    const sealed = Buffer.from(state.seal(destinationRow.encode(destination)));
    const key = before?.key ?? ['signals', 'handles', alias, id];
    const fresh = {
      plain,
      ...(isForGroups(plain) ? { claimedAt: claimedSince(plain, before) ?? now() } : {}),
      sealed: sealed.toString('base64'),
      key,
      isInGroups: compileGroups(plain, membership, this.#work),
    };
    const ended = isForGroups(plain) ? this.#endedGroupsOf(plain, before) : [];
    const deletions = ended.map((row) => ({ op: 'delete', key: row.key }) as const);
    const info = await this.#write(fresh, before, [...deletions, ...steps]);
    for (const row of ended) this.#drop(row);
    return info;
  }

  /**
   * Returns the other handles for groups with this alias and owner that have expired. A new one
   * replaces them, because each one is tested for each signal of the alias without a valid handle.
   */
  #endedGroupsOf(
    { alias, owner }: HandleFields,
    before: HandleRow | undefined,
  ): readonly HandleRow[] {
    const now = this.#options.now();
    const rows = this.#forGroups.get(groupsKey(alias, owner)) ?? [];
    return rows.filter((row) => row !== before && row.plain.owner === owner && !isValid(row, now));
  }

  /**
   * Writes a handle, and removes the previous one.
   * @throws BridgeError ERR_HANDLE_LIMIT if the stored size would exceed a limit
   */
  async #write(
    fresh: Omit<HandleRow, 'bytes'>,
    before: HandleRow | undefined,
    steps: readonly StateOperation[],
  ): Promise<HandleInfo> {
    const { plain, claimedAt, sealed, key } = fresh;
    const claimed = claimedAt === undefined ? {} : { claimedAt };
    const value = handleRow.encode({ plain, ...claimed, sealed });
    const row: HandleRow = { ...fresh, bytes: value.length };
    const more = row.bytes - (before?.bytes ?? 0);
    // A handle that does not grow is always accepted. Otherwise an owner whose share has become
    // smaller could not remove a retired minion from its handles.
    if (more > 0 && !this.#bytes.hasPlace(budgetOwner(plain), more)) {
      const text =
        'the registered handles have reached the limit `handle_bytes` or `handle_bytes_per_owner`; remove handles, or raise the limit';
      throw new BridgeError('ERR_HANDLE_LIMIT', text);
    }
    const { state } = this.#options;
    const expiresAt = plain.expiresAt + endedHandleRetentionMs;
    const put = { op: 'put', key, value, expiresAt } as const;
    if (state.cluster !== undefined) {
      // The row is indexed when the replicated log delivers it.
      await state.write([put, ...steps]);
      return this.#infoOf(row);
    }
    if (before !== undefined) this.#drop(before);
    this.#restore(row);
    try {
      await state.write([put, ...steps]);
    } catch (error) {
      this.#drop(row);
      if (before !== undefined) this.#restore(before);
      throw error;
    }
    return this.#infoOf(row);
  }

  #rowOf(alias: string, owner: string | undefined, stack: string | undefined): HandleRow {
    const all = [...this.#byAlias.get(alias)];
    const ofStack = stack === undefined ? all : all.filter(({ plain }) => plain.stack === stack);
    const named = ofStack.filter(({ plain }) => plain.owner === owner);
    const rows = named.length === 0 && owner === undefined ? ofStack : named;
    const [row, another] = rows;
    if (row === undefined) throw unknownHandleError(alias);
    if (another === undefined) return row;
    const owners = [...new Set(rows.map(({ plain }) => plain.owner))];
    const stacks = [...new Set(rows.map(({ plain }) => plain.stack))];
    const [what, names] = owners.length > 1 ? ['owners', owners] : ['stacks', stacks];
    const text = `${alias}: several ${what} have a handle with this alias, so name one of them: ${names.join(', ')}`;
    throw new BridgeError('ERR_HANDLE_AMBIGUOUS', text);
  }

  /**
   * Returns the handle that a registration would replace, or `undefined`.
   * @throws BridgeError ERR_HANDLE_AMBIGUOUS if it would replace several handles
   */
  #rowInPlaceOf(
    registration: Omit<HandleRegistration, 'signal'>,
    replaces: boolean,
  ): HandleRow | undefined {
    const { alias, owner, stack, minions = [] } = registration;
    const all = [...this.#byAlias.get(alias)].filter(({ plain }) => plain.owner === owner);
    const same = all.filter(({ plain }) => plain.stack === (stack ?? alias));
    if (same.length === 1) return same[0];
    if (same.length > 1) return this.#rowOf(alias, owner, stack ?? alias);
    if (!replaces) return undefined;
    if (stack === undefined && all.length === 1) return all[0];
    const isAlsoForGroups = isForGroups(registration);
    return all.find(
      ({ plain }) =>
        plain.minions.some((it) => minions.includes(it)) || (isAlsoForGroups && isForGroups(plain)),
    );
  }

  /**
   * Checks that a registration does not conflict with another valid handle of the same alias. A
   * minion in the registration must not belong to another handle. If the registration names groups,
   * its owner must not have another handle with groups. Lets other work run between the minions.
   * @throws BridgeError ERR_HANDLE_EXISTS
   */
  async #refuseOthers(
    handle: Omit<HandleRegistration, 'signal'>,
    own: HandleRow | undefined,
  ): Promise<void> {
    const { alias, owner, minions = [] } = handle;
    const now = this.#options.now();
    const isOther = (row: HandleRow): boolean => row !== own && isValid(row, now);
    if (isForGroups(handle)) {
      const others = this.#forGroups.get(groupsKey(alias, owner)) ?? [];
      const isTaken = others.some((row) => isOther(row) && row.plain.owner === owner);
      if (isTaken) throw aliasTakenError(alias);
    }
    for (const minion of minions) {
      const listing = this.#byMinion.get(minionKey(alias, minion));
      if (listing !== undefined && isOther(listing)) throw aliasTakenError(alias);
      const forGroups = this.#groupHandlesFor(alias, minion);
      const isTaken = forGroups.some((row) => isOther(row) && row.isInGroups(minion));
      if (isTaken) throw aliasTakenError(alias);
      this.#work.addToSlice(stepsPerMinion + forGroups.length);
      if (this.#work.isSliceOver) await this.#work.giveWay();
    }
  }

  /**
   * Returns the handles whose groups can contain a minion, in order of precedence. If the owner of
   * a handle is a project, its groups contain only minions of this project.
   */
  #groupHandlesFor(alias: string, minion: string): readonly HandleRow[] {
    const ofOthers = this.#forGroups.get(groupsKey(alias)) ?? [];
    const project = this.#options.membership.projectOf(minion);
    const owner = project === undefined ? undefined : ownerNameOfProject(project);
    const ofProject =
      owner === undefined ? [] : (this.#forGroups.get(groupsKey(alias, owner)) ?? []);
    return ofProject.length === 0 ? ofOthers : [...ofOthers, ...ofProject].sort(compareClaims);
  }

  /**
   * Updates the handles in memory after a stored handle has changed. In a cluster, the change may
   * come from another member.
   */
  #note(change: StateChange): void {
    const id = (change.type === 'put' ? change.entry : change).key.at(-1) ?? '';
    const known = this.#rows.get(id);
    if (known !== undefined) this.#drop(known);
    if (change.type === 'put') {
      const { key, value } = change.entry;
      const stored = handleRow.decode(change.entry);
      const isInGroups = compileGroups(stored.plain, this.#options.membership, this.#work);
      this.#restore({ ...stored, key, bytes: value.length, isInGroups });
    }
    this.#onFollowed(id);
  }

  /**
   * Adds a handle to the indexes and to the bytes of its owner. Does so even if the owner then
   * exceeds its share, which other owners make smaller.
   */
  #restore(row: HandleRow): void {
    this.#bytes.take(budgetOwner(row.plain), row.bytes);
    this.#index(row);
  }

  #index(row: HandleRow): void {
    const { plain } = row;
    this.#rows.set(plain.id, row);
    this.#byAlias.add(plain.alias, row);
    this.#byOwner.add(plain.owner, row);
    for (const minion of plain.minions) this.#byMinion.set(minionKey(plain.alias, minion), row);
    if (row.claimedAt === undefined) return;
    const key = groupsKey(plain.alias, plain.owner);
    const others = this.#forGroups.get(key) ?? [];
    this.#forGroups.set(key, [...others, row].sort(compareClaims));
  }

  #drop(row: HandleRow): void {
    const { plain, bytes } = row;
    if (!this.#rows.delete(plain.id)) return;
    this.#bytes.release(budgetOwner(plain), bytes);
    this.#byAlias.delete(plain.alias, row);
    this.#byOwner.delete(plain.owner, row);
    for (const minion of plain.minions) {
      const key = minionKey(plain.alias, minion);
      if (this.#byMinion.get(key) === row) this.#byMinion.delete(key);
    }
    if (row.claimedAt === undefined) return;
    const groups = groupsKey(plain.alias, plain.owner);
    const others = this.#forGroups.get(groups)?.filter((it) => it !== row) ?? [];
    if (others.length > 0) this.#forGroups.set(groups, others);
    else this.#forGroups.delete(groups);
  }

  #infoOf({ plain }: HandleRow): HandleInfo {
    return { emptyIsSuccess: false, ...plain, isListed: this.#options.endpoints.has(plain.origin) };
  }

  #forgetEnded(): void {
    const before = this.#options.now() - endedHandleRetentionMs;
    for (const row of this.#rows.values()) if (row.plain.expiresAt < before) this.#drop(row);
  }
}

/**
 * Returns the name of the owner whose limit includes the size of a handle. For a handle without an
 * owner, returns the id of the handle, so that no other handle shares its limit.
 */
function budgetOwner({ owner, id }: HandleFields): string {
  return owner ?? id;
}

/**
 * Returns the time at which a handle got its present groups, if the previous registration of the
 * handle had the same ones. Otherwise returns `undefined`, because the groups are new.
 */
function claimedSince(groups: HandleGroups, before: HandleRow | undefined): number | undefined {
  const isSame =
    before !== undefined && isDeepStrictEqual(groupsOf(groups), groupsOf(before.plain));
  return isSame ? before.claimedAt : undefined;
}

/**
 * Returns a unique key for an alias and a minion. It is unique because an alias contains no slash.
 */
function minionKey(alias: string, minion: string): string {
  return `${alias}/${minion}`;
}

/**
 * Returns a unique key for an alias and the project that owns a handle. All owners that are not
 * projects have the same key.
 */
function groupsKey(alias: string, owner = ''): string {
  return `${alias}/${projectOfOwner(owner) ?? ''}`;
}

function compareClaims(a: HandleRow, b: HandleRow): number {
  return (a.claimedAt ?? 0) - (b.claimedAt ?? 0);
}

function isValid({ plain }: HandleRow, now: number): boolean {
  return plain.expiresAt > now;
}

function withoutMinion(row: HandleRow, minion: string): HandleRow {
  const minions = row.plain.minions.filter((it) => it !== minion);
  return { ...row, plain: { ...row.plain, minions } };
}

function aliasTakenError(alias: string): BridgeError {
  const text = `${alias}: a handle with this alias already exists for this owner and stack, or for one of these minions; remove or replace it`;
  return new BridgeError('ERR_HANDLE_EXISTS', text);
}

function unknownHandleError(alias: string): BridgeError {
  return new BridgeError(
    'ERR_HANDLE_UNKNOWN',
    `no handle is registered under the alias ${JSON.stringify(alias.slice(0, 64))}`,
  );
}

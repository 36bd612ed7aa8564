/**
 * Registry of data spaces. A data space lists the roles of a stack and the minions of each role.
 */

import { randomUUID } from 'node:crypto';
import Type, { type Static } from 'typebox';
import {
  BridgeError,
  isPlainMap,
  parseForm,
  type RegistrationChecks,
  SharedNames,
} from '#heat-bridge';
import type { SharedArea, StateChange, StateOperation } from '#master';
import { findInterpretedText } from '#minion-protocol';
import {
  Budget,
  type BudgetLimits,
  compileSchema,
  KeyedMutex,
  unlimitedSteps,
  WorkBudget,
} from '#runtime';
import { defineRow, fromJson, jsonField, type Key, Texts, writeInParts } from '#store';
import { guestLimits } from '../limits.ts';
import { findRegistration, registrationOf, requireRegistrationRoom } from '../registrations.ts';
import { EndedSpaces } from './ended-spaces.ts';
import { examineRoles, roleFields, roleNameSchema, writtenKeys } from './roles.ts';

const strict = { additionalProperties: false };
const Name = Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' });
const { total: maxMinions = Infinity } = guestLimits.spaceMinions;
const MinionId = Type.String({ minLength: 1, maxLength: 253 });

/** Registration of a data space. */
export const DataSpaceSchema = Type.Object(
  {
    /** Name of the space, unique for its owner. */
    name: Name,
    /**
     * Roles of a stack, with their minions. A role that writes values must have at most one minion.
     */
    roles: Type.Record(
      roleNameSchema,
      Type.Object(
        {
          ...roleFields,
          minions: Type.Unsafe<readonly string[]>(
            Type.Array(MinionId, { maxItems: maxMinions, uniqueItems: true }),
          ),
        },
        strict,
      ),
      strict,
    ),
  },
  strict,
);

/** Registration of a data space; {@link DataSpaceSchema} documents its fields. */
export type DataSpaceRegistration = Readonly<Static<typeof DataSpaceSchema>>;

/** Registered data space. */
export interface DataSpace extends DataSpaceRegistration {
  readonly id: string;
  readonly owner: string | undefined;
  /** Time of the registration, in milliseconds since 1970. */
  readonly registeredAt: number;
}

/** Data space as its row contains it. `minions` may contain dismissed minions. */
interface StoredSpace extends DataSpace {
  /**
   * Number of times that the row was written before. A row about a dismissed minion is valid only
   * for one edition of the space.
   */
  readonly edition: number;
}

/** Format of the rows with the keys `guests/spaces/<id>`. */
const spaceRow = defineRow({
  name: 'data space',
  schema: Type.Unsafe<StoredSpace>(
    Type.Object({
      name: Type.String(),
      roles: Type.Object({}),
      id: Type.String(),
      owner: Type.Optional(Type.String()),
      registeredAt: Type.Number(),
      edition: Type.Integer({ minimum: 0 }),
    }),
  ),
  packed: { roles: jsonField },
  unversioned: fromJson,
  upgrades: [(old) => ({ ...old, edition: 0 })],
});

/** Data space in memory. */
interface KnownSpace {
  /** Space with the minions of its row, also with the dismissed ones. */
  readonly stored: StoredSpace;
  /** Size of the row of the space, in bytes. */
  readonly bytes: number;
  /** Minions that were dismissed since the row of the space was written. */
  readonly dismissed: Set<string>;
  /** Number of minions that were not dismissed. */
  minions: number;
  /** Space without the minions that are in `dismissed`. `undefined` if it must be computed. */
  current: DataSpace | undefined;
}

interface KnownMember {
  readonly known: KnownSpace;
  readonly role: string;
}

/** Data space of a minion, and its role there. */
export interface Membership {
  /** The space. Its lists of minions may contain minions that were dismissed. */
  readonly space: DataSpace;
  readonly role: string;
}

/** Data space, without its values. */
export const SpaceInfoSchema = Type.Object({
  name: Type.String(),
  id: Type.String(),
  owner: Type.Optional(Type.String()),
  /** Minions by role. */
  roles: Type.Record(Type.String(), Texts),
  /** Number of declared values. */
  keys: Type.Integer(),
  /** Time of the registration, in milliseconds since 1970. */
  registeredAt: Type.Integer(),
});

/** Data space, without its values. */
export type DataSpaceInfo = Readonly<Static<typeof SpaceInfoSchema>>;

const isRegistration = compileSchema(DataSpaceSchema);

/**
 * Number of steps that a {@link WorkBudget} counts for each declaration: a role, an attribute, a
 * value, a key or a minion.
 */
const stepsPerDeclaration = 1_000;
/** Number of declarations that are parsed without a pause. */
const declarationsAtOnce = 100;

/**
 * Parses a registration, with pauses.
 * @throws BridgeError ERR_DATA_FORM, ERR_DATA_QUOTA
 */
export async function parseDataSpace(
  given: unknown,
  keysPerStack: number,
): Promise<DataSpaceRegistration> {
  requireAmounts(given, keysPerStack);
  const work = new WorkBudget(unlimitedSteps);
  const pauseAfter = (declarations: number): Promise<void> =>
    work.giveWayAfter(declarations * stepsPerDeclaration);
  let name = '';
  const parts = new Map<string, SpaceRole[]>();
  for (const part of partsOf(given)) {
    const checked = parseForm(isRegistration, part.form, 'ERR_DATA_FORM', 'registration');
    requireInertNames(checked.roles);
    name = checked.name;
    for (const [role, it] of Object.entries(checked.roles)) {
      const before = parts.get(role);
      if (before === undefined) parts.set(role, [it]);
      else before.push(it);
    }
    await pauseAfter(part.declarations);
  }
  const roles = Object.fromEntries(
    Array.from(parts, ([role, its]) => [role, joinRole(role, its)] as const),
  );
  for (const it of examineRoles(roles)) {
    if (typeof it !== 'number') throw formError(it.text);
    await pauseAfter(it);
  }
  const minions = minionsOfSpace({ roles });
  if (new Set(minions).size < minions.length)
    throw formError('roles: a minion must not be listed twice, or be in more than one role');
  return { name, roles };
}

type SpaceRole = DataSpaceRegistration['roles'][string];

/**
 * Part of a registration of a data space. Registrations are parsed in parts, because parsing a
 * large one at once would take too long.
 */
interface RegistrationPart {
  /** This part in the form of a complete registration, so that the same parser can read it. */
  readonly form: unknown;
  readonly declarations: number;
}

/**
 * Splits a registration into parts, each small enough to be parsed at once. A role with many
 * declarations is split, too.
 */
function* partsOf(given: unknown): Generator<RegistrationPart, void, void> {
  if (!isPlainMap(given) || !isPlainMap(given.roles)) {
    yield { form: given, declarations: 1 };
    return;
  }
  const { roles, ...rest } = given;
  yield { form: { ...rest, roles: {} }, declarations: 1 };
  for (const [role, it] of Object.entries(roles)) {
    const formOf = (fields: unknown): object => ({ ...rest, roles: { [role]: fields } });
    if (!isPlainMap(it)) {
      yield { form: formOf(it), declarations: 1 };
      continue;
    }
    const large = Object.entries(it).filter(
      ([field, value]) => fieldsInParts.has(field) && sizeOf(value) > declarationsAtOnce,
    );
    const emptied = large.map(([field, value]) => [field, Array.isArray(value) ? [] : {}] as const);
    const small = { ...it, ...Object.fromEntries(emptied) };
    const declarations = Object.values(small).reduce<number>((sum, its) => sum + sizeOf(its), 1);
    yield { form: formOf(small), declarations };
    for (const [field, value] of large) {
      for (const [part, declarations] of chunksOf(value)) {
        yield { form: formOf({ minions: [], [field]: part }), declarations };
      }
    }
  }
}

const fieldsInParts: ReadonlySet<string> = new Set(['minions', 'reads', 'writes']);

/**
 * Returns the number of declarations in a field of a role, for example in `reads`. Declarations are
 * counted to split large registrations.
 */
function sizeOf(value: unknown): number {
  if (Array.isArray(value)) return value.length;
  if (!isPlainMap(value)) return 1;
  return Object.values(value).reduce<number>((sum, it) => sum + weightOf(it), 0);
}

/**
 * Returns the number of declarations in one entry of a field of a role: one for the entry itself,
 * and one for each key in the list `needs` of a written value.
 */
function weightOf(member: unknown): number {
  return 1 + (isPlainMap(member) && Array.isArray(member.needs) ? member.needs.length : 0);
}

/**
 * Splits the list or map in a field into parts that are small enough to be parsed at once. Yields
 * each part, and the approximate number of declarations that it contains.
 */
function* chunksOf(field: unknown): Generator<readonly [part: unknown, declarations: number]> {
  if (Array.isArray(field)) {
    for (let start = 0; start < field.length; start += declarationsAtOnce) {
      yield [field.slice(start, start + declarationsAtOnce), declarationsAtOnce];
    }
    return;
  }
  let members: [string, unknown][] = [];
  let declarations = 0;
  for (const [name, member] of Object.entries(isPlainMap(field) ? field : {})) {
    members.push([name, member]);
    declarations += weightOf(member);
    if (declarations < declarationsAtOnce) continue;
    yield [Object.fromEntries(members), declarations];
    members = [];
    declarations = 0;
  }
  yield [Object.fromEntries(members), declarations];
}

/**
 * Joins the declarations of a role, which occur in several places of the registration, into one.
 * @throws BridgeError ERR_DATA_FORM
 */
function joinRole(role: string, parts: readonly SpaceRole[]): SpaceRole {
  const [first = { minions: [] }, ...more] = parts;
  const joined: SpaceRole =
    more.length === 0
      ? first
      : {
          minions: parts.flatMap((it) => it.minions),
          ...(first.reads && { reads: joinMaps(parts.map(({ reads }) => reads)) }),
          ...(first.writes && { writes: joinMaps(parts.map(({ writes }) => writes)) }),
        };
  const { minions, writes = {} } = joined;
  if (Object.keys(writes).length > 0 && minions.length > 1) {
    throw formError(
      `roles.${role}.minions: must list only one minion, because the role writes values`,
    );
  }
  return joined;
}

function joinMaps<T>(
  maps: readonly (Readonly<Record<string, T>> | undefined)[],
): Record<string, T> {
  return Object.fromEntries(maps.flatMap((map) => Object.entries(map ?? {})));
}

/**
 * Rejects names of values with text that Salt would interpret, for example `__slot__:`.
 * @throws BridgeError ERR_DATA_FORM
 */
function requireInertNames(roles: DataSpaceRegistration['roles']): void {
  const interpreted = findInterpretedText(roles);
  if (interpreted === undefined) return;
  throw formError(
    `roles.${interpreted.path.join('.')}: the name of the value ${interpreted.expected}`,
  );
}

/**
 * Checks the number of roles, minions and written values, the number and length of the attributes
 * that each role reads, and the number that all roles together read. The pillar of a role's minions
 * contains one value for each attribute, and the details of a space list the readers of each value.
 * Called before the registration is parsed, so that a huge registration is rejected early.
 * @throws BridgeError ERR_DATA_QUOTA
 */
function requireAmounts(given: unknown, keysPerStack: number): void {
  const { spaceRoles, spaceReads, roleAttributes, attributeCharacters } = guestLimits;
  const roles = isPlainMap(given) && isPlainMap(given.roles) ? Object.entries(given.roles) : [];
  if (roles.length > (spaceRoles.total ?? Infinity)) {
    const text = `the space has ${roles.length} roles, more than ${spaceRoles.total}; use fewer roles, or several data spaces`;
    throw new BridgeError('ERR_DATA_QUOTA', text);
  }
  const maxAttributes = Math.max(keysPerStack, roleAttributes.total ?? Infinity);
  const maxReads = Math.max(keysPerStack, spaceReads.total ?? Infinity);
  let minions = 0;
  let read = 0;
  let keys = 0;
  for (const [role, it] of roles) {
    const { minions: members, reads, writes } = isPlainMap(it) ? it : {};
    minions += Array.isArray(members) ? members.length : 0;
    if (minions > maxMinions) {
      const text = `the space has more than ${maxMinions} minions; use several data spaces`;
      throw new BridgeError('ERR_DATA_QUOTA', text);
    }
    const attributes = isPlainMap(reads) ? Object.keys(reads) : [];
    if (attributes.length > maxAttributes) {
      const text = `the role ${role.slice(0, 64)} reads ${attributes.length} attributes, more than ${maxAttributes}; read each value under fewer names`;
      throw new BridgeError('ERR_DATA_QUOTA', text);
    }
    const characters = attributes.reduce((sum, name) => sum + name.length, 0);
    if (characters > (attributeCharacters.total ?? Infinity)) {
      const text = `the names of the attributes that the role ${role.slice(0, 64)} reads have ${characters} characters, more than ${attributeCharacters.total}; use shorter names, or several roles`;
      throw new BridgeError('ERR_DATA_QUOTA', text);
    }
    read += attributes.length;
    if (read > maxReads) {
      const text = `the roles of the space together read more than ${maxReads} attributes; use fewer roles, or several data spaces`;
      throw new BridgeError('ERR_DATA_QUOTA', text);
    }
    keys += isPlainMap(writes) ? Object.keys(writes).length : 0;
  }
  if (keys > keysPerStack) {
    const text = `the space declares ${keys} values, more than keys_per_stack (${keysPerStack})`;
    throw new BridgeError('ERR_DATA_QUOTA', text);
  }
}

function formError(text: string): BridgeError {
  return new BridgeError('ERR_DATA_FORM', text);
}

/** Returns every minion with a role. */
export function minionsOfSpace({ roles }: Pick<DataSpaceRegistration, 'roles'>): string[] {
  return Object.values(roles).flatMap(({ minions }) => minions);
}

const maxRegistrationBytes = 4_194_304;
const prefix = ['guests', 'spaces'];
/**
 * Prefix of the rows about dismissed minions. The key of a row is `guests/dismissed/<id of the
 * space>/<edition of the space>/<minion>`, and its value is empty.
 */
const dismissedPrefix = ['guests', 'dismissed'];
const limits = { code: 'ERR_DATA_LIMIT', kind: 'data space' } as const;
const unknown = { code: 'ERR_DATA_UNKNOWN', kind: 'data space' } as const;

export interface DataSpacesOptions {
  readonly state: SharedArea;
  /** Deletes all values of a data space. */
  readonly forget: (space: string) => Promise<void>;
  /** Aborted when the bridge closes. */
  readonly closing: AbortSignal;
  /** Limits on the size of registrations, in bytes. Default: `guestLimits.spaceBytes`. */
  readonly bytes?: BudgetLimits;
  readonly now: () => number;
}

/** Registry of data spaces. */
export class DataSpaces {
  readonly #options: DataSpacesOptions;
  readonly #spaces = new Map<string, KnownSpace>();
  readonly #members = new Map<string, KnownMember>();
  /**
   * Keys of the rows about dismissed minions whose edition of the space was not read yet, by the id
   * of the space. A member of a cluster that starts may read them in this order.
   */
  readonly #early = new Map<string, Key[]>();
  readonly #bytes: Budget;
  readonly #changes = new KeyedMutex();
  readonly #ended: EndedSpaces;
  readonly #names: SharedNames;

  private constructor(options: DataSpacesOptions, names: SharedNames) {
    this.#options = options;
    this.#names = names;
    const forget = async (space: string): Promise<void> => {
      await options.forget(space);
      await this.#deleteDismissed([...dismissedPrefix, space]);
    };
    this.#ended = new EndedSpaces({ ...options, forget });
    const { spaceBytes } = guestLimits;
    this.#bytes = new Budget(spaceBytes, { ...spaceBytes, ...options.bytes });
  }

  /** Opens the registry with the stored spaces. */
  static async open(options: DataSpacesOptions): Promise<DataSpaces> {
    const { state } = options;
    const spaces = new DataSpaces(options, await SharedNames.open(state, 'space-names'));
    await state.follow(prefix, (change) => spaces.#note(change));
    const former: Key[] = [];
    await state.follow(dismissedPrefix, (change) => {
      if (change.type === 'put' && spaces.#noteDismissed(change.entry.key) === 'former') {
        former.push(change.entry.key);
      }
    });
    // An earlier process has written a new edition of a space, but has not deleted these rows.
    await writeInParts(state, former.map(deletionOf));
    if (state.cluster === undefined) await spaces.#ended.resume();
    return spaces;
  }

  /**
   * Completes the removals of spaces that another cluster member had begun before it failed. Called
   * when this member takes over the work of that member.
   */
  takeOver(): Promise<void> {
    return this.#ended.resume();
  }

  /** Whether a space exists. */
  has(id: string): boolean {
    return this.#spaces.has(id);
  }

  get all(): readonly DataSpace[] {
    return Array.from(this.#spaces.values(), currentOf);
  }

  /**
   * Returns the space and the role of a minion, or `undefined` if it belongs to no space. Takes the
   * same time for a large space.
   */
  membershipOf(minion: string): Membership | undefined {
    const member = this.#members.get(minion);
    return member && { space: member.known.stored, role: member.role };
  }

  /** Returns the minions that have a role in a space and were not dismissed. */
  minionsOf(space: Pick<DataSpace, 'id' | 'roles'>, role: string): readonly string[] {
    const dismissed = this.#spaces.get(space.id)?.dismissed;
    return (space.roles[role]?.minions ?? []).filter((id) => dismissed?.has(id) !== true);
  }

  /**
   * Registers a space. Resolves when it is durable.
   * @param replaces - whether the registration may replace a space with the same name and owner;
   * its values are preserved
   * @throws BridgeError ERR_DATA_EXISTS, ERR_DATA_LIMIT
   */
  add(
    registration: DataSpaceRegistration,
    owner: string | undefined,
    replaces: boolean,
    { requirePermission }: RegistrationChecks = {},
  ): Promise<DataSpace> {
    return this.#decide(async (steps) => {
      requirePermission?.();
      const stored = this.#stored;
      const before = registrationOf(stored, { name: registration.name, owner });
      if (before !== undefined && !replaces) {
        throw new BridgeError(
          'ERR_DATA_EXISTS',
          `${registration.name}: the owner already has a data space with this name; remove or replace it`,
        );
      }
      for (const minion of minionsOfSpace(registration)) {
        const other = this.#members.get(minion)?.known.stored;
        if (other !== undefined && other.id !== before?.id) {
          throw new BridgeError(
            'ERR_DATA_EXISTS',
            `the minion ${minion} already belongs to another data space`,
          );
        }
      }
      if (before === undefined) requireRegistrationRoom(stored, owner, limits);
      const id = before?.id ?? randomUUID();
      const space = { ...registration, id, owner, registeredAt: this.#options.now() };
      await this.#write(space, steps);
      return space;
    });
  }

  /**
   * Removes a space and its values. Resolves when the removal is durable.
   * @throws BridgeError ERR_DATA_UNKNOWN
   */
  remove(name: string, owner: string | undefined): Promise<DataSpace> {
    return this.#decide(async (steps) => {
      const space = this.find(name, owner);
      await this.#remove(space, steps);
      return space;
    });
  }

  /**
   * Removes a retired minion from its space. If the space then has no minions, it is removed too.
   * Writes a row for the minion, and not the whole space, because dismissing all minions of a large
   * space would otherwise take quadratic time. Rewrites the space when half of its minions were
   * dismissed.
   * @param owner - owner of the space; default: any owner
   */
  dismiss(minion: string, owner?: string): Promise<void> {
    return this.#decide(async (steps) => {
      const known = this.#members.get(minion)?.known;
      if (known === undefined || (owner !== undefined && known.stored.owner !== owner)) return;
      const { stored, dismissed, minions } = known;
      if (minions === 1) return this.#remove(stored, steps);
      if (dismissed.size + 1 >= minions - 1) {
        return this.#write(spaceWithout(stored, new Set([...dismissed, minion])), steps);
      }
      const { state } = this.#options;
      const key = [...dismissedPrefix, stored.id, String(stored.edition), minion];
      await state.write([{ op: 'put', key, value: new Uint8Array() }, ...steps]);
      if (state.cluster === undefined) this.#noteDismissed(key);
    });
  }

  /**
   * Runs only one change at a time in the whole cluster. Otherwise two simultaneous changes could
   * put a minion into two spaces, although it may belong to only one.
   */
  #decide<T>(work: (steps: readonly StateOperation[]) => Promise<T>): Promise<T> {
    return this.#changes.run('spaces', () => this.#names.decide(['spaces'], work));
  }

  /**
   * Returns the space with this name.
   * @param owner - owner of the space; default: any owner, if only one owner has a space with the
   * name
   * @throws BridgeError ERR_DATA_UNKNOWN
   */
  find(name: string, owner: string | undefined): DataSpace {
    const stored = findRegistration(this.#stored, { name, owner }, unknown);
    const known = this.#spaces.get(stored.id);
    return known === undefined ? stored : currentOf(known);
  }

  /** All spaces with the minions of their rows, also with dismissed ones. */
  get #stored(): readonly StoredSpace[] {
    return Array.from(this.#spaces.values(), ({ stored }) => stored);
  }

  /** Writes a space with exactly these minions. */
  async #write(space: DataSpace, steps: readonly StateOperation[]): Promise<void> {
    const before = this.#spaces.get(space.id);
    const edition = before === undefined ? 0 : before.stored.edition + 1;
    const value = spaceRow.encode({ ...space, edition });
    if (value.length > maxRegistrationBytes) {
      throw formError(`the registration of the data space exceeds ${maxRegistrationBytes} bytes`);
    }
    this.#requireBytes(space, value.length);
    const { state } = this.#options;
    await state.write([{ op: 'put', key: [...prefix, space.id], value }, ...steps]);
    if (state.cluster === undefined) this.#set({ ...space, edition }, value.length);
    if (before !== undefined && before.dismissed.size > 0) {
      await this.#deleteDismissed([...dismissedPrefix, space.id, String(before.stored.edition)]);
    }
  }

  /** Deletes the rows about dismissed minions below a key. */
  async #deleteDismissed(below: Key): Promise<void> {
    const { state } = this.#options;
    const keys: Key[] = [];
    for await (const { key } of state.list(below)) keys.push(key);
    await writeInParts(state, keys.map(deletionOf));
  }

  /** Applies a change of a stored space to memory. In a cluster, other members make changes too. */
  #note(change: StateChange): void {
    if (change.type === 'delete') {
      this.#forget(change.key.at(-1) ?? '');
      return;
    }
    this.#set(spaceRow.decode(change.entry), change.entry.value.length);
  }

  /**
   * Removes a dismissed minion from memory.
   * @param key - key of the row about the dismissed minion
   * @returns whether the row is about the present edition of a space, a former one, or one that
   * this process has not read yet
   */
  #noteDismissed(key: Key): 'former' | 'later' | 'present' {
    const [id = '', edition, minion = ''] = key.slice(dismissedPrefix.length);
    const known = this.#spaces.get(id);
    const present = known?.stored.edition ?? -1;
    if (Number(edition) < present) return 'former';
    if (known === undefined || Number(edition) > present) {
      const early = this.#early.get(id);
      if (early === undefined) this.#early.set(id, [key]);
      else early.push(key);
      return 'later';
    }
    if (this.#members.get(minion)?.known === known) {
      this.#members.delete(minion);
      known.dismissed.add(minion);
      known.minions -= 1;
      known.current = undefined;
    }
    return 'present';
  }

  #set(space: StoredSpace, bytes: number): void {
    this.#forget(space.id);
    this.#remember(space, bytes);
    const early = this.#early.get(space.id) ?? [];
    this.#early.delete(space.id);
    for (const key of early) this.#noteDismissed(key);
  }

  /**
   * Checks the limits on the size of registrations. The check stays valid until the write, because
   * changes are serialized.
   */
  #requireBytes(space: DataSpace, bytes: number): void {
    const more = bytes - (this.#spaces.get(space.id)?.bytes ?? 0);
    // A space that becomes smaller is always accepted.
    if (more > 0 && !this.#bytes.hasPlace(budgetOwner(space), more)) {
      const text =
        'the registered data spaces of this owner, or of all owners, have reached their size limit; remove data spaces';
      throw new BridgeError('ERR_DATA_LIMIT', text);
    }
  }

  async #remove({ id }: Pick<DataSpace, 'id'>, steps: readonly StateOperation[]): Promise<void> {
    const { state } = this.#options;
    // Remove the space from memory first, so that no more values are written to it.
    if (state.cluster === undefined) this.#forget(id);
    await state.write([
      { op: 'delete', key: [...prefix, id] },
      this.#ended.operation(id),
      ...steps,
    ]);
    await this.#ended.forget(id);
  }

  /**
   * Adds a stored space to the indexes and to the bytes of its owner. Does so even if the owner then
   * exceeds its share, which other owners make smaller.
   */
  #remember(stored: StoredSpace, bytes: number): void {
    const known: KnownSpace = {
      stored,
      bytes,
      dismissed: new Set(),
      minions: minionsOfSpace(stored).length,
      current: stored,
    };
    this.#spaces.set(stored.id, known);
    this.#bytes.take(budgetOwner(stored), bytes);
    for (const [role, { minions: ids }] of Object.entries(stored.roles)) {
      for (const minion of ids) this.#members.set(minion, { known, role });
    }
  }

  #forget(id: string): void {
    const known = this.#spaces.get(id);
    if (known === undefined) return;
    this.#bytes.release(budgetOwner(known.stored), known.bytes);
    this.#spaces.delete(id);
    for (const minion of minionsOfSpace(known.stored)) {
      // A dismissed minion may belong to another space now.
      if (this.#members.get(minion)?.known === known) this.#members.delete(minion);
    }
  }
}

/** Returns a space without its dismissed minions. */
function currentOf(known: KnownSpace): DataSpace {
  known.current ??= spaceWithout(known.stored, known.dismissed);
  return known.current;
}

function spaceWithout(space: DataSpace, dismissed: ReadonlySet<string>): DataSpace {
  const roles = Object.entries(space.roles).map(([name, role]) => {
    return [name, { ...role, minions: role.minions.filter((id) => !dismissed.has(id)) }];
  });
  return { ...space, roles: Object.fromEntries(roles) };
}

function deletionOf(key: Key): StateOperation {
  return { op: 'delete', key };
}

/**
 * Returns the name of the owner whose limit includes the size of a space. A space without an owner
 * counts as an owner of its own.
 */
function budgetOwner({ owner, id }: DataSpace): string {
  return owner ?? id;
}

export function infoOfSpace(space: DataSpace): DataSpaceInfo {
  const { name, id, owner, roles, registeredAt } = space;
  return {
    name,
    id,
    ...(owner === undefined ? {} : { owner }),
    roles: Object.fromEntries(Object.entries(roles).map(([role, { minions }]) => [role, minions])),
    keys: writtenKeys(roles).size,
    registeredAt,
  };
}

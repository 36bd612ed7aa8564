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
import { defineRow, fromJson, jsonField, Texts } from '#store';
import { guestLimits } from '../limits.ts';
import { findRegistration, registrationOf, requireRegistrationRoom } from '../registrations.ts';
import { EndedSpaces } from './ended-spaces.ts';
import { examineRoles, roleFields, roleNameSchema, writtenKeys } from './roles.ts';

const strict = { additionalProperties: false };
const Name = Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' });
const maxMinionsOfRole = 10_000;
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
            Type.Array(MinionId, { maxItems: maxMinionsOfRole, uniqueItems: true }),
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

/** Format of the rows with the keys `guests/spaces/<id>`. */
const spaceRow = defineRow({
  name: 'data space',
  schema: Type.Unsafe<DataSpace>(
    Type.Object({
      name: Type.String(),
      roles: Type.Object({}),
      id: Type.String(),
      owner: Type.Optional(Type.String()),
      registeredAt: Type.Number(),
    }),
  ),
  packed: { roles: jsonField },
  unversioned: fromJson,
});

/** Data space of a minion, and its role there. */
export interface Membership {
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
  if (minions.length > maxMinionsOfRole) {
    throw formError(`roles.${role}.minions: must not have more than ${maxMinionsOfRole} minions`);
  }
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
 * Checks the number of roles, the number of written values, and the number of attributes that each
 * role reads. The pillar of a role's minions contains one value for each attribute. Called before
 * the registration is parsed, so that a huge registration is rejected early.
 * @throws BridgeError ERR_DATA_QUOTA
 */
function requireAmounts(given: unknown, keysPerStack: number): void {
  const { spaceRoles, roleAttributes } = guestLimits;
  const roles = isPlainMap(given) && isPlainMap(given.roles) ? Object.entries(given.roles) : [];
  if (roles.length > (spaceRoles.total ?? Infinity)) {
    const text = `the space has ${roles.length} roles, more than ${spaceRoles.total}; use fewer roles, or several data spaces`;
    throw new BridgeError('ERR_DATA_QUOTA', text);
  }
  const maxAttributes = Math.max(keysPerStack, roleAttributes.total ?? Infinity);
  let keys = 0;
  for (const [role, it] of roles) {
    const { reads, writes } = isPlainMap(it) ? it : {};
    const attributes = isPlainMap(reads) ? Object.keys(reads).length : 0;
    if (attributes > maxAttributes) {
      const text = `the role ${role.slice(0, 64)} reads ${attributes} attributes, more than ${maxAttributes}; read each value under fewer names`;
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
  readonly #spaces = new Map<string, DataSpace>();
  readonly #members = new Map<string, Membership>();
  /** Stored size of each space, in bytes. */
  readonly #sizes = new Map<string, number>();
  readonly #bytes: Budget;
  readonly #changes = new KeyedMutex();
  readonly #ended: EndedSpaces;
  readonly #names: SharedNames;

  private constructor(options: DataSpacesOptions, names: SharedNames) {
    this.#options = options;
    this.#names = names;
    this.#ended = new EndedSpaces(options);
    const { spaceBytes } = guestLimits;
    this.#bytes = new Budget(spaceBytes, { ...spaceBytes, ...options.bytes });
  }

  /** Opens the registry with the stored spaces. */
  static async open(options: DataSpacesOptions): Promise<DataSpaces> {
    const { state } = options;
    const spaces = new DataSpaces(options, await SharedNames.open(state, 'space-names'));
    await state.follow(prefix, (change) => spaces.#note(change));
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
    return [...this.#spaces.values()];
  }

  /** Returns the space and the role of a minion, or `undefined` if it belongs to no space. */
  membershipOf(minion: string): Membership | undefined {
    return this.#members.get(minion);
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
      const before = registrationOf(this.all, { name: registration.name, owner });
      if (before !== undefined && !replaces) {
        throw new BridgeError(
          'ERR_DATA_EXISTS',
          `${registration.name}: the owner already has a data space with this name; remove or replace it`,
        );
      }
      for (const minion of minionsOfSpace(registration)) {
        const other = this.#members.get(minion)?.space;
        if (other !== undefined && other.id !== before?.id) {
          throw new BridgeError(
            'ERR_DATA_EXISTS',
            `the minion ${minion} already belongs to another data space`,
          );
        }
      }
      if (before === undefined) requireRegistrationRoom(this.all, owner, limits);
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
   * @param owner - owner of the space; default: any owner
   */
  dismiss(minion: string, owner?: string): Promise<void> {
    return this.#decide(async (steps) => {
      const space = this.#members.get(minion)?.space;
      if (space === undefined || (owner !== undefined && space.owner !== owner)) return;
      const roles = Object.fromEntries(
        Object.entries(space.roles).map(([name, role]) => {
          return [name, { ...role, minions: role.minions.filter((id) => id !== minion) }];
        }),
      );
      if (minionsOfSpace({ roles }).length === 0) await this.#remove(space, steps);
      else await this.#write({ ...space, roles }, steps);
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
    return findRegistration(this.all, { name, owner }, unknown);
  }

  async #write(space: DataSpace, steps: readonly StateOperation[]): Promise<void> {
    const value = spaceRow.encode(space);
    if (value.length > maxRegistrationBytes) {
      throw formError(`the registration of the data space exceeds ${maxRegistrationBytes} bytes`);
    }
    this.#requireBytes(space, value.length);
    const { state } = this.#options;
    await state.write([{ op: 'put', key: [...prefix, space.id], value }, ...steps]);
    if (state.cluster === undefined) this.#set(space, value.length);
  }

  /** Applies a change of a stored space to memory. In a cluster, other members make changes too. */
  #note(change: StateChange): void {
    if (change.type === 'delete') {
      this.#forget(change.key.at(-1) ?? '');
      return;
    }
    this.#set(spaceRow.decode(change.entry), change.entry.value.length);
  }

  #set(space: DataSpace, bytes: number): void {
    this.#forget(space.id);
    this.#remember(space, bytes);
  }

  /**
   * Checks the limits on the size of registrations. The check stays valid until the write, because
   * changes are serialized.
   */
  #requireBytes(space: DataSpace, bytes: number): void {
    const more = bytes - (this.#sizes.get(space.id) ?? 0);
    // A space that becomes smaller is always accepted.
    if (more > 0 && !this.#bytes.hasPlace(budgetOwner(space), more)) {
      const text =
        'the registered data spaces of this owner, or of all owners, have reached their size limit; remove data spaces';
      throw new BridgeError('ERR_DATA_LIMIT', text);
    }
  }

  async #remove({ id }: DataSpace, steps: readonly StateOperation[]): Promise<void> {
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
  #remember(space: DataSpace, bytes: number): void {
    this.#spaces.set(space.id, space);
    this.#bytes.take(budgetOwner(space), bytes);
    this.#sizes.set(space.id, bytes);
    for (const [role, { minions }] of Object.entries(space.roles)) {
      for (const minion of minions) this.#members.set(minion, { space, role });
    }
  }

  #forget(id: string): void {
    const known = this.#spaces.get(id);
    if (known !== undefined) {
      this.#bytes.release(budgetOwner(known), this.#sizes.get(id) ?? 0);
      this.#sizes.delete(id);
    }
    this.#spaces.delete(id);
    for (const minion of known === undefined ? [] : minionsOfSpace(known)) {
      this.#members.delete(minion);
    }
  }
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

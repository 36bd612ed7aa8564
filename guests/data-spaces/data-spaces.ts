/** Data spaces: registered roles of stacks, and the minions that have them. */

import { randomUUID } from 'node:crypto';
import Type, { type Static } from 'typebox';
import {
  BridgeError,
  findRegistration,
  parseForm,
  registrationOf,
  requireRegistrationRoom,
  SharedNames,
} from '#heat-bridge';
import type { SharedArea, StateChange, StateOperation } from '#master';
import { findInterpretedText } from '#minion-protocol';
import { Budget, type BudgetLimits, compileSchema, KeyedMutex } from '#runtime';
import { defineRow, fromJson, jsonField, Texts } from '#store';
import { EndedSpaces } from './ended-spaces.ts';
import { findRoleProblems, roleFields, roleNameSchema, writtenKeys } from './roles.ts';

const strict = { additionalProperties: false };
const Name = Type.String({ pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' });
const MinionId = Type.String({ minLength: 1, maxLength: 253 });

/** Registration of a data space. */
export const DataSpaceSchema = Type.Object(
  {
    /** Name of the space; unique to its owner. */
    name: Name,
    /** Roles of a stack with their minions; one that writes has one minion. */
    roles: Type.Record(
      roleNameSchema,
      Type.Object(
        {
          ...roleFields,
          minions: Type.Unsafe<readonly string[]>(
            Type.Array(MinionId, { maxItems: 10_000, uniqueItems: true }),
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

/** A registered data space. */
export interface DataSpace extends DataSpaceRegistration {
  readonly id: string;
  readonly owner: string | undefined;
  /** Milliseconds since 1970. */
  readonly registeredAt: number;
}

/** Rows of data spaces. */
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

/** A minion's place in a data space. */
export interface Membership {
  readonly space: DataSpace;
  readonly role: string;
}

/** A data space, without its values. */
export const SpaceInfoSchema = Type.Object({
  name: Type.String(),
  id: Type.String(),
  owner: Type.Optional(Type.String()),
  /** Minions by role. */
  roles: Type.Record(Type.String(), Texts),
  /** Number of values that are declared. */
  keys: Type.Integer(),
  /** Milliseconds since 1970. */
  registeredAt: Type.Integer(),
});

/** A data space, without its values. */
export type DataSpaceInfo = Readonly<Static<typeof SpaceInfoSchema>>;

const isRegistration = compileSchema(DataSpaceSchema);

/** Reads a registration. @throws BridgeError ERR_DATA_FORM, ERR_DATA_QUOTA */
export function parseDataSpace(given: unknown, keysPerStack: number): DataSpaceRegistration {
  const registration = parseForm(isRegistration, given, 'ERR_DATA_FORM', 'registration');
  const { roles } = registration;
  const [problem] = findRoleProblems(roles);
  if (problem !== undefined) throw formError(problem.text);
  for (const [role, { writes = {}, minions }] of Object.entries(roles)) {
    if (Object.keys(writes).length > 0 && minions.length > 1) {
      throw formError(`roles.${role}.minions: a role that writes has one minion`);
    }
  }
  const interpreted = findInterpretedText(roles);
  if (interpreted !== undefined) {
    throw formError(`roles.${interpreted.path.join('.')}: a name ${interpreted.expected}`);
  }
  const minions = minionsOfSpace(registration);
  if (new Set(minions).size < minions.length) throw formError('roles: a minion has two roles');
  const keys = writtenKeys(roles).size;
  if (keys > keysPerStack) {
    const text = `${keys} values; keys_per_stack is ${keysPerStack}`;
    throw new BridgeError('ERR_DATA_QUOTA', text);
  }
  return registration;
}

function formError(text: string): BridgeError {
  return new BridgeError('ERR_DATA_FORM', text);
}

/** Every minion that has a role. */
export function minionsOfSpace({ roles }: Pick<DataSpaceRegistration, 'roles'>): string[] {
  return Object.values(roles).flatMap(({ minions }) => minions);
}

const maxRegistrationBytes = 4_194_304;
/** Bytes of registrations, all of which are in memory. */
const registrationBytes: BudgetLimits = { total: 268_435_456, perOwner: 67_108_864 };
const prefix = ['guests', 'spaces'];
const limits = { code: 'ERR_DATA_LIMIT', kind: 'data space' } as const;
const unknown = { code: 'ERR_DATA_UNKNOWN', kind: 'data space' } as const;

export interface DataSpacesOptions {
  readonly state: SharedArea;
  /** Forgets the values of a space. */
  readonly forget: (space: string) => Promise<void>;
  /** Fires when the bridge is closed. */
  readonly closing: AbortSignal;
  /** Bytes of registrations. Default: 64 MiB of one owner, 256 MiB in all. */
  readonly bytes?: BudgetLimits;
  readonly now: () => number;
}

/** The registered data spaces. */
export class DataSpaces {
  readonly #options: DataSpacesOptions;
  readonly #spaces = new Map<string, DataSpace>();
  readonly #members = new Map<string, Membership>();
  /** Of each space, bytes as it is stored. */
  readonly #sizes = new Map<string, number>();
  readonly #bytes: Budget;
  readonly #changes = new KeyedMutex();
  readonly #ended: EndedSpaces;
  readonly #names: SharedNames;

  private constructor(options: DataSpacesOptions, names: SharedNames) {
    this.#options = options;
    this.#names = names;
    this.#ended = new EndedSpaces(options);
    this.#bytes = new Budget(options.bytes ?? registrationBytes);
  }

  /** With those that a process before this one registered. */
  static async open(options: DataSpacesOptions): Promise<DataSpaces> {
    const { state } = options;
    const spaces = new DataSpaces(options, await SharedNames.open(state, 'space-names'));
    await state.follow(prefix, (change) => spaces.#note(change));
    if (state.cluster === undefined) await spaces.#ended.resume();
    return spaces;
  }

  /** In a cluster: goes on with what other members have not done. */
  takeOver(): Promise<void> {
    return this.#ended.resume();
  }

  /** Whether a space has not ended. */
  has(id: string): boolean {
    return this.#spaces.has(id);
  }

  get all(): readonly DataSpace[] {
    return [...this.#spaces.values()];
  }

  /** The space and the role of a minion. */
  membershipOf(minion: string): Membership | undefined {
    return this.#members.get(minion);
  }

  /**
   * Registers a space; durable when it resolves.
   * @param replaces - whether one of this name and owner may be there: its values stay
   * @throws BridgeError ERR_DATA_EXISTS, ERR_DATA_LIMIT
   */
  add(
    registration: DataSpaceRegistration,
    owner: string | undefined,
    replaces: boolean,
  ): Promise<DataSpace> {
    return this.#decide(async (steps) => {
      const before = registrationOf(this.all, { name: registration.name, owner });
      if (before !== undefined && !replaces) {
        throw new BridgeError(
          'ERR_DATA_EXISTS',
          `${registration.name}: the space is there already`,
        );
      }
      for (const minion of minionsOfSpace(registration)) {
        const other = this.#members.get(minion)?.space;
        if (other !== undefined && other.id !== before?.id) {
          throw new BridgeError('ERR_DATA_EXISTS', `${minion} is in another data space`);
        }
      }
      if (before === undefined) requireRegistrationRoom(this.all, owner, limits);
      const id = before?.id ?? randomUUID();
      const space = { ...registration, id, owner, registeredAt: this.#options.now() };
      await this.#write(space, steps);
      return space;
    });
  }

  /** Forgets a space and its values; durable when it resolves. @throws BridgeError ERR_DATA_UNKNOWN */
  remove(name: string, owner: string | undefined): Promise<DataSpace> {
    return this.#decide(async (steps) => {
      const space = this.find(name, owner);
      await this.#remove(space, steps);
      return space;
    });
  }

  /** Takes a minion that is no more out of its space, which ends with its last one. */
  dismiss(minion: string): Promise<void> {
    return this.#decide(async (steps) => {
      const space = this.#members.get(minion)?.space;
      if (space === undefined) return;
      const roles = Object.fromEntries(
        Object.entries(space.roles).map(([name, role]) => {
          return [name, { ...role, minions: role.minions.filter((id) => id !== minion) }];
        }),
      );
      if (minionsOfSpace({ roles }).length === 0) await this.#remove(space, steps);
      else await this.#write({ ...space, roles }, steps);
    });
  }

  /** One after the other, at all members of a cluster: a minion is in one space. */
  #decide<T>(work: (steps: readonly StateOperation[]) => Promise<T>): Promise<T> {
    return this.#changes.run('spaces', () => this.#names.decide(['spaces'], work));
  }

  /**
   * The space of a name.
   * @param owner - default: whoever has it, where that is one owner
   * @throws BridgeError ERR_DATA_UNKNOWN
   */
  find(name: string, owner: string | undefined): DataSpace {
    return findRegistration(this.all, { name, owner }, unknown);
  }

  async #write(space: DataSpace, steps: readonly StateOperation[]): Promise<void> {
    const value = spaceRow.encode(space);
    if (value.length > maxRegistrationBytes) {
      throw formError(`the registration has more than ${maxRegistrationBytes} bytes`);
    }
    this.#requireBytes(space, value.length);
    const { state } = this.#options;
    await state.write([{ op: 'put', key: [...prefix, space.id], value }, ...steps]);
    if (state.cluster === undefined) this.#set(space, value.length);
  }

  /** A space of the store; in a cluster also what any member makes of it. */
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

  /** Nothing else changes meanwhile: changes follow each other. */
  #requireBytes(space: DataSpace, bytes: number): void {
    const { perOwner, total } = this.#options.bytes ?? registrationBytes;
    const more = bytes - (this.#sizes.get(space.id) ?? 0);
    const isFull =
      this.#bytes.heldBy(budgetOwner(space)) + more > perOwner || this.#bytes.total + more > total;
    // A space that becomes smaller does so in any case.
    if (more > 0 && isFull) {
      const text = 'the data spaces of this owner, or all of them, use as many bytes as they may';
      throw new BridgeError('ERR_DATA_LIMIT', text);
    }
  }

  async #remove({ id }: DataSpace, steps: readonly StateOperation[]): Promise<void> {
    const { state } = this.#options;
    // First, so that nothing is written to it any more.
    if (state.cluster === undefined) this.#forget(id);
    await state.write([
      { op: 'delete', key: [...prefix, id] },
      this.#ended.operation(id),
      ...steps,
    ]);
    await this.#ended.forget(id);
  }

  /** What was registered before stays, also where there is less room now. */
  #remember(space: DataSpace, bytes: number): void {
    this.#spaces.set(space.id, space);
    if (this.#bytes.tryTake(budgetOwner(space), bytes)) this.#sizes.set(space.id, bytes);
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

/** The spaces of the local interface have no owner who could crowd out another: each is its own. */
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

/**
 * Roles of a stack: the values that each role writes and reads. Templates declare roles, and
 * registrations of data spaces contain them.
 */

import Type, { type Static, type TObject } from 'typebox';

const strict = { additionalProperties: false };

export const roleNameSchema = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$',
});
const Attribute = Type.String({ pattern: '^[^\\p{C}]{1,255}$' });
/** Key of a value: `role/name`. */
const ValueKey = Type.String({ maxLength: 193 });

/** Fields with which a role declares a value that its guests write. */
const writeFields = {
  /** Name under which the software of the role knows the value. Default: the name of the value. */
  attribute: Type.Optional(Attribute),
  /**
   * Whether the value is secret. A secret value is encrypted in the store, and sent only over
   * transports that encrypt it for the guest. Default: false.
   */
  secret: Type.Optional(Type.Boolean()),
  /** Whether the value may be written more than once. Default: false. */
  versioned: Type.Optional(Type.Boolean()),
  /**
   * Keys of the values that the role reads before it writes this one. Default: all values that it
   * reads.
   */
  needs: Type.Optional(Type.Unsafe<readonly string[]>(Type.Array(ValueKey, { maxItems: 1000 }))),
};

/** Value that guests of a role write. */
export type RoleWrite = Readonly<Static<TObject<typeof writeFields>>>;

/**
 * Schema of a value that a role in a template writes. If the field `value` contains an expression,
 * Heat determines the value, and no guest writes it.
 */
export const TemplateWriteSchema = Type.Object(
  { ...writeFields, value: Type.Optional(Type.Unknown()) },
  strict,
);

const valueNameSchema = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$',
});

/** Fields of a role: the values that its guests read and write. */
export const roleFields = {
  /**
   * Values that the role reads: the key `role/name` of each value, by its attribute. The attribute
   * is the name that the role's own software uses for the value.
   */
  reads: Type.Optional(Type.Record(Attribute, ValueKey, strict)),
  /** Values that guests of the role write, by name. The key of a value is `<role>/<name>`. */
  writes: Type.Optional(Type.Record(valueNameSchema, Type.Object(writeFields, strict), strict)),
};

/** Values that guests of a role read and write. */
export type Role = Readonly<Static<TObject<typeof roleFields>>>;

export type Roles = Readonly<Record<string, Role>>;

/** Problem in the declarations of roles. */
export interface RoleProblem {
  readonly kind: 'cycle' | 'unknown-role' | 'unknown-value' | 'unread-value';
  /** Description of the problem, in human-readable form. */
  readonly text: string;
  /** Keys of the values that depend on each other, with the first one repeated at the end. */
  readonly chain?: readonly string[];
}

/** Returns the key of a value in its data space. */
export function keyOf(role: string, name: string): string {
  return `${role}/${name}`;
}

/** Splits a key into role and name. */
export function splitKey(key: string): { readonly role: string; readonly name: string } {
  const slash = key.indexOf('/');
  return slash === -1
    ? { role: '', name: key }
    : { role: key.slice(0, slash), name: key.slice(slash + 1) };
}

/**
 * Returns the values that guests write, by key. Each is described by its declaration in the role
 * that writes it.
 */
export const writtenKeys: (roles: Roles) => ReadonlyMap<string, RoleWrite> = oncePer(
  (roles: Roles) =>
    new Map(
      Object.entries(roles).flatMap(([role, { writes = {} }]) =>
        Object.entries(writes).map(([name, write]) => [keyOf(role, name), write] as const),
      ),
    ),
);

/** Returns for each key the roles that read it. */
export const readersByKey: (roles: Roles) => ReadonlyMap<string, readonly string[]> =
  oncePer(listReaders);

/** Returns the keys that a role reads. */
export const readKeys: (role: Role) => ReadonlySet<string> = oncePer(
  ({ reads = {} }: Role) => new Set(Object.values(reads)),
);

/**
 * Wraps a function so that it computes its result only once for each role or map of roles. These
 * must be immutable. They can contain 10,000 values, so computing takes long.
 */
export function oncePer<K extends object, T>(make: (key: K) => T): (key: K) => T {
  const made = new WeakMap<K, T>();
  return (key) => {
    const known = made.get(key);
    if (known !== undefined) return known;
    const fresh = make(key);
    made.set(key, fresh);
    return fresh;
  };
}

function listReaders(roles: Roles): ReadonlyMap<string, readonly string[]> {
  const readers = new Map<string, string[]>();
  for (const [role, it] of Object.entries(roles)) {
    for (const key of readKeys(it)) {
      const roles = readers.get(key);
      if (roles === undefined) readers.set(key, [role]);
      else roles.push(role);
    }
  }
  return readers;
}

/**
 * Yields problems: reads of unknown roles and values, and then one dependency cycle. The search
 * continues only as far as the caller iterates.
 */
export function* findRoleProblems(roles: Roles): Generator<RoleProblem, void, void> {
  for (const it of examineRoles(roles)) if (typeof it !== 'number') yield it;
}

/** Number of keys after which an examination pauses. */
const keysAtOnce = 100;

/**
 * Yields the same problems as {@link findRoleProblems}. Between them, also yields numbers: how many
 * declarations were examined since the previous number. The caller can pause after each number.
 */
export function* examineRoles(roles: Roles): Generator<RoleProblem | number, void, void> {
  const written = writtenKeys(roles);
  for (const [role, it] of Object.entries(roles)) {
    const { writes = {} } = it;
    const own = readKeys(it);
    let looked = 0;
    yield 1;
    for (const key of own) {
      if (!written.has(key)) yield describeMissing(role, key, roles);
      looked += 1;
      if (looked % keysAtOnce === 0) yield keysAtOnce;
    }
    for (const [name, { needs = [] }] of Object.entries(writes)) {
      const strange = needs.find((key) => !own.has(key));
      yield 1 + needs.length;
      if (strange === undefined) continue;
      const text = `the value ${keyOf(role, name)} needs ${strange}, which the role ${role} does not read`;
      yield { kind: 'unknown-value', text };
    }
  }
  const cycle = yield* walkForCycle(yield* waitsOf(roles));
  if (cycle !== undefined) yield describeCycle(cycle);
}

/** Returns the keys of values that no role reads. Guests do not send these values. */
export const unreadKeys: (roles: Roles) => readonly string[] = oncePer((roles: Roles) => {
  const readers = readersByKey(roles);
  return [...writtenKeys(roles).keys()].filter((key) => !readers.has(key));
});

/** Maximum number of role names in a message. */
const maxShownRoles = 20;

function describeMissing(role: string, key: string, roles: Roles): RoleProblem {
  const { role: writer, name } = splitKey(key);
  if (!Object.hasOwn(roles, writer)) {
    const names = Object.keys(roles);
    const known = [...names.slice(0, maxShownRoles), ...(names[maxShownRoles] ? ['…'] : [])].join(
      ', ',
    );
    const text = `the role ${role} reads ${key}, but there is no role "${writer}"; roles are ${known}`;
    return { kind: 'unknown-role', text };
  }
  const text = `the role ${role} reads ${key}, but the role ${writer} does not write "${name}"`;
  return { kind: 'unknown-value', text };
}

/**
 * Returns a dependency graph: the nodes that each value depends on. A value with a list `needs`
 * depends on the keys in this list. Any other value depends on the node `<role>/`, which stands for
 * all keys that its role reads. Thousands of values thus share one list of keys. Yields 1 after
 * each role, so that the caller can pause.
 */
function* waitsOf(roles: Roles): Generator<number, ReadonlyMap<string, readonly string[]>, void> {
  const waits = new Map<string, readonly string[]>();
  for (const [role, { reads = {}, writes = {} }] of Object.entries(roles)) {
    const all = keyOf(role, '');
    for (const [name, { needs }] of Object.entries(writes)) {
      waits.set(keyOf(role, name), needs ?? [all]);
    }
    waits.set(all, Object.values(reads));
    yield 1;
  }
  return waits;
}

/**
 * Returns a cycle of a graph, with the first node repeated at the end, or `undefined`.
 * @param edges - dependencies of each node
 */
export function findCycle(
  edges: ReadonlyMap<string, readonly string[]>,
): readonly string[] | undefined {
  const walk = walkForCycle(edges);
  let step = walk.next();
  while (step.done !== true) step = walk.next();
  return step.value;
}

/**
 * Searches for a cycle like {@link findCycle}, but pauses: after every {@link keysAtOnce} steps,
 * yields this number.
 * @returns the cycle, or `undefined`
 */
function* walkForCycle(
  edges: ReadonlyMap<string, readonly string[]>,
): Generator<number, readonly string[] | undefined, void> {
  const done = new Set<string>();
  let followed = 0;
  for (const start of edges.keys()) {
    if (done.has(start)) continue;
    const path: { readonly node: string; readonly next: Iterator<string> }[] = [];
    const onPath = new Set<string>();
    const enter = (node: string): void => {
      path.push({ node, next: (edges.get(node) ?? []).values() });
      onPath.add(node);
    };
    enter(start);
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      followed += 1;
      if (followed % keysAtOnce === 0) yield keysAtOnce;
      const { value: node, done: isOver } = top.next.next();
      if (isOver === true) {
        done.add(top.node);
        onPath.delete(top.node);
        path.pop();
      } else if (onPath.has(node)) {
        const from = path.findIndex((it) => it.node === node);
        return [...path.slice(from).map((it) => it.node), node];
      } else if (!done.has(node)) enter(node);
    }
  }
  return undefined;
}

function describeCycle(nodes: readonly string[]): RoleProblem {
  const [first = '', ...others] = nodes.slice(0, -1).filter((it) => splitKey(it).name !== '');
  const chain = [first, ...others, first];
  const text = `values wait for each other in a cycle: ${chain.join(' waits for ')}`;
  return { kind: 'cycle', text, chain };
}

/**
 * Roles of a stack: which values each writes and reads. Templates declare them, and data spaces are
 * registered with them.
 */

import Type, { type Static, type TObject } from 'typebox';

const strict = { additionalProperties: false };

export const roleNameSchema = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$',
});
const Attribute = Type.String({ pattern: '^[^\\p{C}]{1,255}$' });
/** `role/name`. */
const ValueKey = Type.String({ maxLength: 193 });

/** Fields of a value that the guest of a role writes. */
const writeFields = {
  /** Name of the value in the role's own software. Default: its name. */
  attribute: Type.Optional(Attribute),
  /** Whether it is stored sealed, and given in private alone. Default false. */
  secret: Type.Optional(Type.Boolean()),
  /** Whether it may be written again. Default: once. */
  versioned: Type.Optional(Type.Boolean()),
  /** Values that the role reads before it writes this one. Default: all that it reads. */
  needs: Type.Optional(Type.Unsafe<readonly string[]>(Type.Array(ValueKey, { maxItems: 1000 }))),
};

/** A value that the guest of a role writes. */
export type RoleWrite = Readonly<Static<TObject<typeof writeFields>>>;

/** Schema of a value that is written in a template: with `value`, an expression, it is Heat's. */
export const TemplateWriteSchema = Type.Object(
  { ...writeFields, value: Type.Optional(Type.Unknown()) },
  strict,
);

const valueNameSchema = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$',
});

/** Fields of a role: what its guests read and write. */
export const roleFields = {
  /** Attribute of the role's own software → `role/name` of the value. */
  reads: Type.Optional(Type.Record(Attribute, ValueKey, strict)),
  /** By their names: value `<role>/<name>`. */
  writes: Type.Optional(Type.Record(valueNameSchema, Type.Object(writeFields, strict), strict)),
};

/** What the guests of a role read and write. */
export type Role = Readonly<Static<TObject<typeof roleFields>>>;

export type Roles = Readonly<Record<string, Role>>;

/** Roles and values, each as a chain names it, from one that is awaited to the one that awaits it. */
export interface RoleProblem {
  readonly kind: 'cycle' | 'unknown-role' | 'unknown-value' | 'unread-value';
  /** For a person. */
  readonly text: string;
  /** Of a cycle: keys, the first again at the end. */
  readonly chain?: readonly string[];
}

/** The key of a value in its data space. */
export function keyOf(role: string, name: string): string {
  return `${role}/${name}`;
}

/** The role and the name of a key. */
export function splitKey(key: string): { readonly role: string; readonly name: string } {
  const slash = key.indexOf('/');
  return slash === -1
    ? { role: '', name: key }
    : { role: key.slice(0, slash), name: key.slice(slash + 1) };
}

/** Every key that a guest writes, with its declaration. */
export const writtenKeys: (roles: Roles) => ReadonlyMap<string, RoleWrite> = oncePerRoles(
  (roles) =>
    new Map(
      Object.entries(roles).flatMap(([role, { writes = {} }]) =>
        Object.entries(writes).map(([name, write]) => [keyOf(role, name), write] as const),
      ),
    ),
);

/** Of each key that is read, the roles that read it. */
export const readersByKey: (roles: Roles) => ReadonlyMap<string, readonly string[]> =
  oncePerRoles(listReaders);

/** Roles do not change; a stack may have 10,000 values. */
function oncePerRoles<T>(make: (roles: Roles) => T): (roles: Roles) => T {
  const made = new WeakMap<Roles, T>();
  return (roles) => {
    const known = made.get(roles);
    if (known !== undefined) return known;
    const fresh = make(roles);
    made.set(roles, fresh);
    return fresh;
  };
}

function listReaders(roles: Roles): ReadonlyMap<string, readonly string[]> {
  const readers = new Map<string, string[]>();
  for (const [role, { reads = {} }] of Object.entries(roles)) {
    for (const key of new Set(Object.values(reads))) {
      const roles = readers.get(key);
      if (roles === undefined) readers.set(key, [role]);
      else roles.push(role);
    }
  }
  return readers;
}

/** Reads of roles and values that there are not, and waits that nobody ends; as they are asked for. */
export function* findRoleProblems(roles: Roles): Generator<RoleProblem, void, void> {
  const written = writtenKeys(roles);
  for (const [role, { reads = {}, writes = {} }] of Object.entries(roles)) {
    const own = new Set(Object.values(reads));
    for (const key of own) {
      if (!written.has(key)) yield describeMissing(role, key, roles);
    }
    for (const [name, { needs = [] }] of Object.entries(writes)) {
      const strange = needs.find((key) => !own.has(key));
      if (strange === undefined) continue;
      const text = `${keyOf(role, name)} needs ${strange}, which role ${role} does not read`;
      yield { kind: 'unknown-value', text };
    }
  }
  const cycle = findCycle(waitsOf(roles));
  if (cycle !== undefined) yield describeCycle(cycle);
}

/** Values that nobody reads: guests do not send them. */
export const unreadKeys: (roles: Roles) => readonly string[] = oncePerRoles((roles) => {
  const readers = readersByKey(roles);
  return [...writtenKeys(roles).keys()].filter((key) => !readers.has(key));
});

/** Roles that a problem lists. */
const maxShownRoles = 20;

function describeMissing(role: string, key: string, roles: Roles): RoleProblem {
  const { role: writer, name } = splitKey(key);
  if (!Object.hasOwn(roles, writer)) {
    const names = Object.keys(roles);
    const known = [...names.slice(0, maxShownRoles), ...(names[maxShownRoles] ? ['…'] : [])].join(
      ', ',
    );
    const text = `role ${role} reads ${key}: there is no role "${writer}" (roles: ${known})`;
    return { kind: 'unknown-role', text };
  }
  const text = `role ${role} reads ${key}: role ${writer} writes no "${name}"`;
  return { kind: 'unknown-value', text };
}

/**
 * Of each value, those that its writer reads before it writes it. All that a role reads has a node of
 * its own, the key without a name: each value by itself would wait for each of thousands.
 */
function waitsOf(roles: Roles): ReadonlyMap<string, readonly string[]> {
  const waits = new Map<string, readonly string[]>();
  for (const [role, { reads = {}, writes = {} }] of Object.entries(roles)) {
    const all = keyOf(role, '');
    for (const [name, { needs }] of Object.entries(writes)) {
      waits.set(keyOf(role, name), needs ?? [all]);
    }
    waits.set(all, Object.values(reads));
  }
  return waits;
}

/**
 * A cycle of a graph, the first node again at the end; `undefined`: there is none.
 * @param edges - node → nodes that it waits for
 */
export function findCycle(
  edges: ReadonlyMap<string, readonly string[]>,
): readonly string[] | undefined {
  const done = new Set<string>();
  for (const start of edges.keys()) {
    const path: { readonly node: string; readonly next: Iterator<string> }[] = [];
    const onPath = new Set<string>();
    const enter = (node: string): void => {
      path.push({ node, next: (edges.get(node) ?? []).values() });
      onPath.add(node);
    };
    if (!done.has(start)) enter(start);
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
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
  const text = `values wait for one another: ${chain.join(' waits for ')}`;
  return { kind: 'cycle', text, chain };
}

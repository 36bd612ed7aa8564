/**
 * Roles of a stack: which values each writes and reads. Templates declare them, and data spaces are
 * registered with them.
 */

import type { TSchema } from 'typebox';
import Type from 'typebox';

const strict = { additionalProperties: false };

/** A value that the guest of a role writes. */
export interface RoleWrite {
  /** What the role's own software calls it. Default: its name. */
  readonly attribute?: string;
  /** Whether it is kept sealed, and given in private alone. Default false. */
  readonly secret?: boolean;
  /** Whether it may be written again. Default: once. */
  readonly versioned?: boolean;
  /** Values that the role reads before it writes this one. Default: all that it reads. */
  readonly needs?: readonly string[];
}

/** What the guests of a role read and write. */
export interface Role {
  /** Attribute of the role's own software → `role/name` of the value. */
  readonly reads?: Readonly<Record<string, string>>;
  /** By their names: value `<role>/<name>`. */
  readonly writes?: Readonly<Record<string, RoleWrite>>;
}

export type Roles = Readonly<Record<string, Role>>;

export const roleNameSchema: TSchema = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$',
});
const Attribute = Type.String({ pattern: '^[^\\p{C}]{1,255}$' });
/** `role/name`. */
const ValueKey = Type.String({ maxLength: 193 });

/** Fields of a value that a guest writes. */
const writeFields: Readonly<Record<keyof RoleWrite, TSchema>> = {
  attribute: Type.Optional(Attribute),
  secret: Type.Optional(Type.Boolean()),
  versioned: Type.Optional(Type.Boolean()),
  needs: Type.Optional(Type.Array(ValueKey, { maxItems: 1000 })),
};

/** Schema of a value that is written, with more fields. */
export function writeSchema(more: Readonly<Record<string, TSchema>> = {}): TSchema {
  return Type.Object({ ...writeFields, ...more }, strict);
}

const valueNameSchema: TSchema = Type.String({
  pattern: '^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$',
});

/** Fields of a role. */
export const roleFields: Readonly<Record<keyof Role, TSchema>> = {
  reads: Type.Optional(Type.Record(Attribute, ValueKey, strict)),
  writes: Type.Optional(Type.Record(valueNameSchema, writeSchema(), strict)),
};

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

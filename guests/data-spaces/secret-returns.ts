/**
 * Redacts secret values of data spaces in returns of minions. Each `salt-call` sends its arguments
 * and its result to the master. The master would otherwise publish and store them.
 */

import { isWireMap, numberOf, type ReturnLoad, type WireValue } from '#minion-protocol';
import type { DataSpaces } from './data-spaces.ts';
import { EndingIndex } from './ending-index.ts';
import { guestRunners } from './guest-requests.ts';
import { keyOf, oncePer, type Roles, writtenKeys } from './roles.ts';

const redacted = '(secret)';

/** Redacts the secret values of the minion's data space in the load of a return. */
export function redactReturn(
  spaces: Pick<DataSpaces, 'membershipOf'>,
  minion: string,
  load: ReturnLoad,
): ReturnLoad {
  const { fun } = load;
  const isKnown = typeof fun === 'string' && Object.hasOwn(redactions, fun);
  const redact = isKnown ? redactions[fun] : undefined;
  const membership = redact && spaces.membershipOf(minion);
  if (redact === undefined || membership === undefined) return load;
  const { space, role } = membership;
  const declared = writtenKeys(space.roles);
  const isSecret = (key: string): boolean => declared.get(key)?.secret === true;
  return redact(load, { isSecret, ...secretsOf(space.roles, role) });
}

/** Returns the map of the secrets of each role to fill. It is dropped together with the roles. */
const secretsByRole = oncePer((_roles: Roles) => new Map<string, RoleSecrets>());

/** Returns the secrets of a role. Computes them only once, because a role can have 10,000 values. */
function secretsOf(roles: Roles, role: string): RoleSecrets {
  const known = secretsByRole(roles).get(role);
  if (known !== undefined) return known;
  const { reads = {}, writes = {} } = roles[role] ?? {};
  const declared = writtenKeys(roles);
  const names = Object.keys(reads).filter((name) => declared.get(reads[name] ?? '')?.secret);
  const secrets: RoleSecrets = {
    reads,
    attributes: { names: new Set(names), endings: new EndingIndex(names) },
    writesSecrets: Object.keys(writes).some((name) => declared.get(keyOf(role, name))?.secret),
  };
  secretsByRole(roles).set(role, secrets);
  return secrets;
}

/** Secrets of a role. */
interface RoleSecrets {
  /**
   * Values that the role reads: maps each attribute of the role to the key (`role/name`) of a
   * value.
   */
  readonly reads: Readonly<Record<string, string>>;
  readonly attributes: SecretAttributes;
  readonly writesSecrets: boolean;
}

interface SecretKeys extends RoleSecrets {
  readonly isSecret: (key: string) => boolean;
}

type Redaction = (load: ReturnLoad, keys: SecretKeys) => ReturnLoad;

/** Functions that return parts of the pillar [salt/modules/{pillar,config}.py]. */
const pillarFunctions = [
  'config.get',
  'config.option',
  'pillar.data',
  'pillar.ext',
  'pillar.fetch',
  'pillar.get',
  'pillar.item',
  'pillar.items',
  'pillar.raw',
] as const;

const redactions: Readonly<Record<string, Redaction>> = {
  ...Object.fromEntries(pillarFunctions.map((fun) => [fun, redactPillar])),
  'saltbridge_data.get': redactValue,
  'saltbridge_data.put': redactArguments,
  'saltbridge_data.put_attributes': redactArguments,
  'saltbridge_data.attributes': (load, { isSecret, reads }) => {
    const change = (value: WireValue, name: string): WireValue => {
      const key = reads[name];
      return key === undefined || isSecret(key) ? redacted : value;
    };
    if (load.return instanceof Map) return { ...load, return: mapEntries(load.return, change) };
    return isWireMap(load.return) ? { ...load, return: mapValues(load.return, change) } : load;
  },
  'sdb.get': redactValue,
  'sdb.get_or_set_hash': redactValue,
  'sdb.set': (load, keys) => redactArguments(redactValue(load, keys), keys),
  'publish.runner': (load, keys) => {
    const [runner] = argumentsOf(load);
    if (runner === guestRunners.put) return redactArguments(load, keys);
    if (runner !== guestRunners.get || !isWireMap(load.return)) return load;
    const { key } = load.return;
    const isOpen = typeof key === 'string' && !keys.isSecret(key);
    return isOpen || !('value' in load.return)
      ? load
      : { ...load, return: { ...load.return, value: redacted } };
  },
};

/**
 * Redacts secret data space values (attributes) in a return with pillar data. The return contains
 * the map `attributes`, or is this map or one of its values.
 */
function redactPillar(load: ReturnLoad, { attributes: secrets }: SecretKeys): ReturnLoad {
  if (secrets.names.size === 0) return load;
  const paths = argumentsOf(load).filter((it) => typeof it === 'string');
  const isValue = paths.some((path) => isSecretPath(path, secrets));
  const isAttributes = paths.some((path) => path.endsWith(attributesKey));
  const whole = isValue && !isWireMap(load.return);
  const left = whole ? redacted : withoutAttributes(load.return ?? null, secrets, isAttributes);
  return { ...load, return: left };
}

/**
 * Pillar key, below `saltbridge:data`, under which a minion finds the values that its role reads.
 */
const attributesKey = 'attributes';

/** Names of the secret attributes that a role reads. */
interface SecretAttributes {
  readonly names: ReadonlySet<string>;
  readonly endings: EndingIndex;
}

function isSecretPath(path: string, { endings }: SecretAttributes): boolean {
  return path.includes(attributesKey) && endings.matches(path);
}

function withoutAttributes(
  value: WireValue,
  secrets: SecretAttributes,
  isAttributes: boolean,
): WireValue {
  const change = (item: WireValue, name: string): WireValue =>
    isSecretPath(name, secrets) || (isAttributes && secrets.names.has(name))
      ? redacted
      : withoutAttributes(item, secrets, name.endsWith(attributesKey));
  // A pillar with keys other than text is a `Map`.
  if (value instanceof Map) return mapEntries(value, change);
  return isWireMap(value) ? mapValues(value, change) : value;
}

/** Redacts the result of a call if an argument names the key of a secret value. */
function redactValue(load: ReturnLoad, { isSecret }: SecretKeys): ReturnLoad {
  const isNamed = argumentsOf(load).some((it) => typeof it === 'string' && isSecret(keyIn(it)));
  // Error messages contain no values, so they are not redacted.
  const { retcode = 0 } = load;
  const code = numberOf(retcode) ?? 0;
  const hasFailed = load.success === false || retcode === true || code !== 0;
  return isNamed && !hasFailed ? { ...load, return: redacted } : load;
}

/** Redacts the arguments of a write, except its key. */
function redactArguments(load: ReturnLoad, { isSecret, writesSecrets }: SecretKeys): ReturnLoad {
  const args = argumentsOf(load);
  const isKey = (it: WireValue): boolean => typeof it === 'string' && isSecret(keyIn(it));
  const mayHold = load.fun === 'saltbridge_data.put' || load.fun === 'sdb.set';
  if (mayHold ? !args.some(isKey) : !writesSecrets) return load;
  const isKept = (it: WireValue): boolean => isKey(it) || it === guestRunners.put;
  return { ...load, fun_args: args.map((it) => (isKept(it) ? it : redacted)) };
}

const sdbScheme = 'sdb://';

/** Returns the key in an argument: `ROLE/NAME`, `key=ROLE/NAME` or `sdb://PROFILE/ROLE/NAME`. */
function keyIn(argument: string): string {
  const isKeyword = argument.startsWith('key=') || argument.startsWith('uri=');
  const text = isKeyword ? argument.slice('key='.length) : argument;
  if (!text.startsWith(sdbScheme)) return text;
  const slash = text.indexOf('/', sdbScheme.length);
  return slash === -1 ? text : text.slice(slash + 1);
}

/** Returns the values of all arguments of a call, without the names of keyword arguments. */
function argumentsOf({ fun_args: args }: ReturnLoad): readonly WireValue[] {
  if (!Array.isArray(args)) return [];
  return args.flatMap((it) => (isWireMap(it) && it.__kwarg__ === true ? Object.values(it) : [it]));
}

/**
 * Returns a copy of a `Map` with changed values. A map is represented as a `Map` if it has keys
 * other than text, or very many keys.
 */
function mapEntries(
  map: ReadonlyMap<WireValue, WireValue>,
  change: (value: WireValue, name: string) => WireValue,
): Map<WireValue, WireValue> {
  return new Map(Array.from(map, ([key, item]) => [key, change(item, String(key))]));
}

function mapValues(
  map: Readonly<Record<string, WireValue>>,
  change: (value: WireValue, name: string) => WireValue,
): Record<string, WireValue> {
  return Object.fromEntries(Object.entries(map).map(([name, it]) => [name, change(it, name)]));
}

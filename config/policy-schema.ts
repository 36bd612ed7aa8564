/** Schemas of rules: `saltbridge: acl: rules:` and `signals:`. */

import type { TUnsafe } from 'typebox';
import {
  isSpecificTagGlob,
  type PolicyEnvironment,
  PolicyError,
  type PolicyRule,
  type PolicySyntax,
  parseRule,
  type RuleOrigin,
  ruleProblems,
} from '#acl';
import { compileLinearSearch, compileWholePattern } from '#minion-protocol';
import { nearestName } from '#runtime';
import { compileGlob } from '#template/python/fnmatch.ts';
import { ConfigError, typeError, unknownOption } from './config-error.ts';
import { custom } from './schema.ts';
import {
  isSettings,
  itemsOf,
  originOfPath,
  placeWithin,
  type Setting,
  settingsOf,
  toPlain,
} from './settings.ts';

/** Schema of rules: a map by name. */
export const policyRules: TUnsafe<readonly PolicyRule[]> = custom<readonly PolicyRule[]>(
  {
    expected: 'a map of rules by name, each with subject, action and resource',
    accept: (value) => {
      const rules = isSettings(value)
        ? Array.from(value, ([name, setting]) => ruleOf(name, setting))
        : givenRules(value)?.map(({ name, rule }) => readRule(name, rule));
      const read = rules?.filter((rule) => rule !== undefined);
      return read?.length === rules?.length ? read : undefined;
    },
    explain: ({ value }) =>
      (givenRules(value) ?? []).flatMap(({ name, rule, setting }) => {
        const place = setting ?? programLocation(name);
        return ruleProblems(name, rule, formWorld).map((it) => toConfigError(it, place));
      }),
  },
  { type: 'object' },
);

/** Rule before its validation. */
interface GivenRule {
  readonly name: string;
  /** Rule as plain data: objects, lists and scalars. */
  readonly rule: unknown;
  /** Location of the rule in a file, with its value. Absent if a program passed the rule. */
  readonly setting?: Setting | undefined;
}

/**
 * Returns the rules in a map from a parsed file, or in a list from a program. A program creates the
 * elements of its list with `allow` and `deny`. Returns `undefined` for other values.
 */
function givenRules(value: unknown): readonly GivenRule[] | undefined {
  if (isSettings(value)) {
    return Array.from(value, ([name, setting]) => ({
      name,
      rule: toPlain(setting.value),
      setting,
    }));
  }
  if (!Array.isArray(value)) return undefined;
  return value.map((given: unknown) => {
    const hasName = typeof given === 'object' && given !== null && 'name' in given;
    if (!hasName || typeof given.name !== 'string') return { name: '', rule: given };
    const { name, ...rule } = given;
    return { name: String(name), rule };
  });
}

/**
 * Rules that were already read, by their settings. Masters in one process that share a setting
 * therefore share the rule, and also the data that other modules cache for it.
 */
const knownRules = new WeakMap<Setting, PolicyRule>();

function ruleOf(name: string, setting: Setting): PolicyRule | undefined {
  const known = knownRules.get(setting);
  if (known?.name === name) return known;
  const { file, line } = setting.origin;
  const rule = readRule(name, toPlain(setting.value), { file, line });
  if (rule !== undefined) knownRules.set(setting, freezeDeeply(rule));
  return rule;
}

function freezeDeeply<T extends object>(value: T): T {
  for (const inner of Object.values(value)) {
    if (typeof inner === 'object' && inner !== null) freezeDeeply(inner);
  }
  return Object.freeze(value);
}

function readRule(name: string, rule: unknown, origin?: RuleOrigin): PolicyRule | undefined {
  try {
    return parseRule(name, rule, origin);
  } catch (error) {
    if (error instanceof PolicyError) return undefined;
    throw error;
  }
}

/**
 * Converts an error in a rule to a configuration error that contains the location of the mistake in
 * the file. If the part with the mistake is not in the file, the error contains the location of the
 * nearest enclosing part.
 * @param rule - setting of the rule
 */
export function toConfigError(cause: PolicyError, rule: Setting, path = cause.path): ConfigError {
  const { file, line } = placeWithin(rule, path);
  const origin = { ...originOfPath(rule.origin, path), file, line };
  return new ConfigError('ERR_OPTION_TYPE', origin, cause.problem, { cause });
}

const names: ReadonlySet<string> = new Set([
  'name',
  'tag',
  'minions',
  'schema',
  'bytes',
  'rate',
  'expires',
]);

/**
 * Rule that permits minions to emit signals, in addition to the signals of their own lifecycle. In
 * a file, each rule is a map with the names below.
 */
export interface SignalRule {
  /**
   * `tag`: glob on tags, as in `reactor:`, with at least one letter or digit. `${minion.id}` and
   * `${pillar:path}` are replaced with values of the sender. Wildcards are accepted only after the
   * last of these placeholders.
   */
  readonly tag: string;
  /** `minions`: glob on the ids of the minions that may emit. Default: `*`. */
  readonly minions: string;
  /** `name`: name of the rule in explanations of decisions. Default: derived from the tag. */
  readonly name?: string;
  /** `schema`: JSON Schema of the data of the event. Default: any data. */
  readonly schema?: unknown;
  /** `bytes`: maximum size of an event, in bytes. Default: the option `event_bytes`. */
  readonly bytes?: number;
  /**
   * `rate`: rate limit of each minion, for example `10/minute`. Default: the option
   * `events_per_second`.
   */
  readonly rate?: string;
  /** `expires`: expiry time in ISO 8601 form. Default: never. */
  readonly expires?: string;
}

/**
 * Schema of signal rules: a list of maps with `tag`, which may also limit the minions and the
 * events.
 */
export const signalRules: TUnsafe<readonly SignalRule[]> = custom<readonly SignalRule[]>(
  {
    expected:
      'a list of maps, each with tag (a glob that contains a letter or a digit) and optionally minions (a glob on ids; default: all), name, schema, bytes, rate and expires',
    accept: (value) => {
      if (!Array.isArray(value)) return undefined;
      const rules = value.map(toRule).filter((rule) => rule !== undefined);
      return rules.length === value.length ? rules : undefined;
    },
    explain: (setting) => {
      const refused = itemsOf(setting).filter(({ value }) => toRule(value) === undefined);
      return refused.flatMap(signalProblems);
    },
  },
  { type: 'array', items: { type: 'object' } },
);

/** Returns all problems of a signal rule, each with its own location. */
function signalProblems(item: Setting): readonly ConfigError[] {
  const members = settingsOf(item);
  const fields = fieldsOf(toPlain(item.value));
  if (fields === undefined) return [typeError(item.origin, item.value, 'a map with tag')];
  const unknown = members.filter(([name]) => !names.has(name));
  const { tag, minions = '*', schema, bytes, name, rate, expires } = Object.fromEntries(fields);
  const rule = {
    subject: { minion: minions },
    action: 'signal',
    resource: withoutUndefined({ tag, schema, bytes }),
    ...withoutUndefined({ rate, expires }),
  };
  const found = [
    ...unknown.map(([, { origin }]) => unknownOption(origin, [...names], 'ERR_OPTION_TYPE')),
    ...ruleProblems('signal', rule, formWorld).map((it) => toSignalError(it, item)),
    ...members
      .filter(([field, { value }]) => field === 'name' && typeof value !== 'string')
      .map(([, { origin }]) => typeError(origin, name, 'text')),
  ];
  const hasUnknownTag = unknown.some(([field]) => nearestName(field, ['tag']) !== undefined);
  const others = found.filter(({ problem }) => !hasUnknownTag || problem !== 'tag must be set');
  return others.length > 0 ? others : [typeError(item.origin, item.value, 'a map with tag')];
}

/**
 * Converts an error in the policy rule that was created from a signal rule. The result is a
 * configuration error of the signal rule.
 */
export function toSignalError(cause: PolicyError, item: Setting): ConfigError {
  const [part, field, ...rest] = cause.path;
  const isNested = part === 'subject' || part === 'resource';
  const own = field === 'minion' ? 'minions' : field;
  const path = isNested ? [...(own === undefined ? [] : [own]), ...rest] : cause.path;
  return toConfigError(cause, item, path);
}

function withoutUndefined(members: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined));
}

function toRule(value: unknown): SignalRule | undefined {
  const fields = fieldsOf(value);
  if (fields === undefined || [...fields.keys()].some((name) => !names.has(name))) return undefined;
  const tag = fields.get('tag');
  const minions = fields.get('minions') ?? '*';
  const isRule =
    typeof tag === 'string' &&
    isSpecificTagGlob(tag) &&
    typeof minions === 'string' &&
    minions !== '';
  const more = isRule ? readMore(fields) : undefined;
  return isRule && more !== undefined ? { tag, minions, ...more } : undefined;
}

/** Reads the optional members of a signal rule. */
function readMore(
  fields: ReadonlyMap<string, unknown>,
): Omit<SignalRule, 'minions' | 'tag'> | undefined {
  const schema = toPlain(fields.get('schema'));
  const bytes = fields.get('bytes');
  const texts = ['name', 'rate', 'expires'].flatMap((name) => {
    const text = toPlain(fields.get(name));
    return text === undefined ? [] : [[name, text] as const];
  });
  const isCount = bytes === undefined || (Number.isInteger(bytes) && Number(bytes) > 0);
  if (!isCount || texts.some(([, text]) => typeof text !== 'string')) return undefined;
  return {
    ...Object.fromEntries(texts),
    ...(schema === undefined ? {} : { schema }),
    ...(bytes === undefined ? {} : { bytes: Number(bytes) }),
  };
}

/**
 * Returns the entries of a map from a file or of an object from a program. Returns `undefined` for
 * other values.
 */
function fieldsOf(value: unknown): Map<string, unknown> | undefined {
  if (value instanceof Map)
    return new Map([...value].map(([name, field]) => [String(name), field]));
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? new Map(Object.entries(value)) : undefined;
}

/**
 * Syntax of patterns in policies. It does not include targets, because compiling a target requires
 * the list of minions.
 */
export const policySyntax: Omit<PolicySyntax, 'target'> = {
  glob: compileGlob,
  regex: compileWholePattern,
  search: compileLinearSearch,
};

/**
 * Environment for checking the form of rules. It has no minions, and its targets match nothing.
 * Another check validates the targets together with the nodegroups.
 */
export const formWorld: PolicyEnvironment = {
  ...policySyntax,
  target: () => noMinions,
  pillarOf: () => undefined,
  now: () => 0,
};

const never = (): boolean => false;
export const noMinions = { isEntitled: never, claims: never, mayMean: never };

/** Location for rules that have no line of their own, because they result from Salt's options. */
export const nowhere: Setting = {
  value: undefined,
  origin: { file: 'options', line: 0, key: 'acl' },
};

export function programLocation(name: string): Setting {
  return { value: undefined, origin: { ...nowhere.origin, key: `saltbridge:acl:rules:${name}` } };
}

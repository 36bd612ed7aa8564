/** `saltbridge: acl: rules:`, and every other option that permits something, as rules of one policy. */

import {
  allow,
  grantRules,
  isSpecificTagGlob,
  type PolicyEnvironment,
  PolicyError,
  type PolicyRule,
  type PolicySyntax,
  parseRule,
  type RuleOrigin,
  rulePatternProblems,
  ruleProblems,
} from '#acl';
import {
  compileGlob,
  compileLinearPattern,
  compileRightTarget,
  compileSearchPattern,
  compileWholePattern,
} from '#minion-protocol';
import { nearestName } from '#runtime';
import { ConfigError, typeError, unknownOption } from './config-error.ts';
import {
  isSettings,
  itemsOf,
  type OptionKind,
  originOfPath,
  placeWithin,
  type Setting,
  type Settings,
  settingsOf,
  toPlain,
} from './option-kinds.ts';
import type { MasterConfig, SignalRule } from './options.ts';
import { compilePermissions } from './permissions.ts';
import { userRightsOf } from './user-rights.ts';

/** A map of rules by their names. */
export const policyRules: OptionKind<readonly PolicyRule[]> = {
  expected: 'a map of rules by their names, each with subject, action and resource',
  isPath: false,
  parse: (value) => {
    const rules = givenRules(value)?.map(({ name, rule, origin }) => readRule(name, rule, origin));
    const read = rules?.filter((rule) => rule !== undefined);
    return read?.length === rules?.length ? read : undefined;
  },
  explain: ({ value }) =>
    ConfigError.of(
      (givenRules(value) ?? []).flatMap(({ name, rule, setting }) => {
        const place = setting ?? placeOfProgram(name);
        return ruleProblems(name, rule, formWorld).map((it) => toConfigError(it, place));
      }),
    ),
};

/** A rule, whatever it is. */
interface GivenRule {
  readonly name: string;
  /** Plain data. */
  readonly rule: unknown;
  /** Of a file. */
  readonly setting?: Setting | undefined;
  readonly origin?: RuleOrigin | undefined;
}

/** From a file, or as `allow` and `deny` make them. */
function givenRules(value: unknown): readonly GivenRule[] | undefined {
  if (isSettings(value)) {
    return Array.from(value, ([name, setting]) => {
      const { file, line } = setting.origin;
      return { name, rule: toPlain(setting.value), setting, origin: { file, line } };
    });
  }
  if (!Array.isArray(value)) return undefined;
  return value.map((given: unknown) => {
    const hasName = typeof given === 'object' && given !== null && 'name' in given;
    if (!hasName || typeof given.name !== 'string') return { name: '', rule: given };
    const { name, ...rule } = given;
    return { name: String(name), rule };
  });
}

function readRule(name: string, rule: unknown, origin?: RuleOrigin): PolicyRule | undefined {
  try {
    return parseRule(name, rule, origin);
  } catch (error) {
    if (error instanceof PolicyError) return undefined;
    throw error;
  }
}

/** @param rule where it stands; the error has the line of the nearest part of it that is there */
function toConfigError(cause: PolicyError, rule: Setting, path = cause.path): ConfigError {
  const { file, line } = placeWithin(rule, path);
  const origin = { ...originOfPath(rule.origin, path), file, line };
  return new ConfigError('ERR_OPTION_TYPE', origin, cause.problem, { cause });
}

/**
 * The rules that a configuration makes: those under `saltbridge: acl:`, and what Salt's options
 * permit. Each has the name of what it came from.
 */
export function rulesOf(config: MasterConfig): PolicyRule[] {
  const everyMinion = { minion: '*' };
  return [
    ...config.acl.rules,
    ...config.acl.signals.map(signalRule),
    ...grantRules('peer', 'publish', compilePermissions(config.peer, 'target')),
    ...grantRules('peer_run', 'runner', compilePermissions(config.peerRun, 'function')),
    ...(config.mineGet === null
      ? [allow('mine', { subject: everyMinion, action: 'mine', resource: { fun: '*' } })]
      : grantRules('mine_get', 'mine', compilePermissions(config.mineGet, 'function'))),
    ...userRightsOf(config).rules,
    ...(config.fileRecv
      ? [allow('file_recv', { subject: everyMinion, action: 'file-send', resource: { path: '*' } })]
      : []),
    // As in Salt; rules that deny take environments away.
    allow('pillar', { subject: everyMinion, action: 'pillar', resource: { environment: '*' } }),
    ...(config.allowMinionKeyRevoke
      ? [
          allow('allow_minion_key_revoke', {
            subject: everyMinion,
            action: 'key',
            resource: { operation: 'revoke' },
          }),
        ]
      : []),
  ];
}

function signalRule({ tag, minions, name, schema, bytes, rate, expires }: SignalRule): PolicyRule {
  return allow(name ?? `signals: ${tag}`, {
    subject: { minion: minions },
    action: 'signal',
    resource: {
      tag,
      ...(schema === undefined ? {} : { schema }),
      ...(bytes === undefined ? {} : { bytes }),
    },
    ...(rate === undefined ? {} : { rate }),
    ...(expires === undefined ? {} : { expires }),
  });
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

/** A list of maps with `tag`; whom they are for and what is permitted of them may stand beside it. */
export const signalRules: OptionKind<readonly SignalRule[]> = {
  expected:
    'a list of maps, each with tag (a glob with a letter or a digit of its own) and, if not all minions are meant, minions (a glob on ids); name, schema, bytes, rate and expires may be there as well',
  isPath: false,
  parse: (value) => {
    if (!Array.isArray(value)) return undefined;
    const rules = value.map(toRule).filter((rule) => rule !== undefined);
    return rules.length === value.length ? rules : undefined;
  },
  explain: (setting) => {
    const refused = itemsOf(setting).filter(({ value }) => toRule(value) === undefined);
    return ConfigError.of(refused.flatMap(signalProblems));
  },
};

/** All that is wrong with a signal, each by its own place. */
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

/** @param cause of the rule that a signal means */
function toSignalError(cause: PolicyError, item: Setting): ConfigError {
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

/** What stands beside tag and minions, if it does. */
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

/** From a file, or from a program. */
function fieldsOf(value: unknown): Map<string, unknown> | undefined {
  if (value instanceof Map)
    return new Map([...value].map(([name, field]) => [String(name), field]));
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value);
  return isObject ? new Map(Object.entries(value)) : undefined;
}

/** All but targets, which ask for minions. */
export const policySyntax: Omit<PolicySyntax, 'target'> = {
  glob: compileGlob,
  regex: compileWholePattern,
  search: (pattern) => {
    // Refuses what the other engine would have to run: the text is a minion's.
    compileLinearPattern(pattern);
    return compileSearchPattern(pattern);
  },
};

/** Looks at rules by themselves: what a target means is looked at with the nodegroups. */
const formWorld: PolicyEnvironment = {
  ...policySyntax,
  target: () => noMinions,
  pillarOf: () => undefined,
  now: () => 0,
};

const nobody = (): boolean => false;
const noMinions = { isEntitled: nobody, claims: nobody, mayMean: nobody };

// Validation of all rules, before any takes effect.

/** What is wrong with the rules that a configuration makes. */
export function policyProblems(config: MasterConfig, acl: Settings): readonly ConfigError[] {
  const target: PolicySyntax['target'] = (tgt, tgtType) => {
    compileRightTarget({ tgt, tgtType }, config.nodegroups);
    return noMinions;
  };
  const world = { ...formWorld, target };
  const rules = acl.get('rules')?.value;
  const signals = itemsOf(acl.get('signals') ?? nowhere);
  const { length } = config.acl.rules;
  return rulesOf(config).flatMap((rule, place) =>
    rulePatternProblems(rule, world).map((cause) => {
      const written = isSettings(rules) ? rules.get(rule.name) : undefined;
      const signal = signals[place - length];
      if (place < length) return toConfigError(cause, written ?? placeOfProgram(rule.name));
      if (signal !== undefined) return toSignalError(cause, signal);
      return new ConfigError('ERR_OPTION_TYPE', nowhere.origin, cause.message, { cause });
    }),
  );
}

/** Of rules that options of Salt's make. */
const nowhere: Setting = { value: undefined, origin: { file: 'options', line: 0, key: 'acl' } };

function placeOfProgram(name: string): Setting {
  return { value: undefined, origin: { ...nowhere.origin, key: `saltbridge:acl:rules:${name}` } };
}

/** `saltbridge: acl: rules:`, and every other option that permits something, as rules of one policy. */

import {
  allow,
  createPolicy,
  grantRules,
  isSpecificTagGlob,
  PolicyError,
  type PolicyRule,
  type PolicySyntax,
  parseRule,
} from '../../acl/index.ts';
import {
  compileGlob,
  compileLinearPattern,
  compileSearchPattern,
  compileWholePattern,
} from '../../minion-protocol/index.ts';
import { compileRightTarget } from '../arguments/index.ts';
import { ConfigError, type OptionOrigin, proposeName } from './config-error.ts';
import {
  isSettings,
  itemsOf,
  type OptionKind,
  type Setting,
  type Settings,
  toPlain,
} from './option-kinds.ts';
import type { MasterConfig, SignalRule } from './options.ts';
import { compilePermissions } from './permissions.ts';
import { userRightsOf } from './user-rights.ts';

const key = 'saltbridge:acl:rules';

/** A map of rules by their names. */
export const policyRules: OptionKind<readonly PolicyRule[]> = {
  expected: 'a map of rules by their names, each with subject, action and resource',
  isPath: false,
  parse: (value) => {
    if (isSettings(value)) return [...value].map(([name, setting]) => ruleOfFile(name, setting));
    if (!Array.isArray(value)) return undefined;
    const rules = value.map(ruleOfProgram).filter((rule) => rule !== undefined);
    return rules.length === value.length ? rules : undefined;
  },
};

/** As `allow` and `deny` make them. */
function ruleOfProgram(value: unknown): PolicyRule | undefined {
  const hasName = typeof value === 'object' && value !== null && 'name' in value;
  if (!hasName || typeof value.name !== 'string') return undefined;
  const { name, ...rule } = value;
  return placed(String(name), undefined, () => parseRule(String(name), rule));
}

function ruleOfFile(name: string, { value, origin }: Setting): PolicyRule {
  const { file, line } = origin;
  return placed(name, origin, () => parseRule(name, toPlain(value), { file, line }));
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

/** Gives a refusal the place of the rule. @throws ConfigError ERR_OPTION_TYPE */
function placed<T>(name: string, origin: OptionOrigin | undefined, read: () => T): T {
  try {
    return read();
  } catch (cause) {
    if (!(cause instanceof PolicyError)) throw cause;
    const where = origin ?? { file: 'options', line: 0, key: `${key}:${name}` };
    const field = cause.field === '' ? '' : `${cause.field}: `;
    throw new ConfigError('ERR_OPTION_TYPE', where, `${field}${cause.problem}`, { cause });
  }
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
  explain: ({ value, origin }) => {
    if (!Array.isArray(value)) return undefined;
    return ConfigError.of(
      value.flatMap((item, index) =>
        toRule(item) === undefined ? [signalError(origin, item, index + 1)] : [],
      ),
    );
  },
};

/** Names the entry of the list and what is wrong with it. */
function signalError(origin: OptionOrigin, item: unknown, place: number): ConfigError {
  const fields = fieldsOf(item);
  const unknown = [...(fields?.keys() ?? [])].find((name) => !names.has(name));
  const expected = `tag (a glob with a letter or a digit of its own) and fields of ${[...names].join(', ')}`;
  const problem =
    unknown === undefined
      ? `entry ${place} is not a rule, expected a map with ${expected}`
      : `entry ${place} has a field that does not exist; ${proposeName(unknown, [...names]) ?? `known are ${[...names].join(', ')}`}`;
  return new ConfigError('ERR_OPTION_TYPE', origin, problem);
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

// Validation of all rules, before any takes effect.

/** @throws ConfigError ERR_OPTION_TYPE with the place of the rule that cannot be used */
export function checkPolicy(config: MasterConfig, acl: Settings): void {
  const target: PolicySyntax['target'] = (tgt, tgtType) => {
    compileRightTarget({ tgt, tgtType }, config.nodegroups);
    const nobody = (): boolean => false;
    return { isEntitled: nobody, claims: nobody, mayMean: nobody };
  };
  const world = { ...policySyntax, target, pillarOf: () => undefined, now: () => 0 };
  for (const [place, rule] of rulesOf(config).entries()) {
    try {
      createPolicy([rule], world);
    } catch (cause) {
      if (!(cause instanceof PolicyError)) throw cause;
      const origin = originOfRule(rule, place - config.acl.rules.length, acl);
      throw new ConfigError('ERR_OPTION_TYPE', origin, describe(cause, rule), {
        cause,
      });
    }
  }
}

/** Rules have places of their own; signals follow them. @param signal counts from 0 */
function originOfRule({ name, origin }: PolicyRule, signal: number, acl: Settings): OptionOrigin {
  if (origin !== undefined) return { ...origin, key: `saltbridge:acl:rules:${name}` };
  const setting = acl.get('signals');
  const item = setting && itemsOf(setting)[signal];
  return item?.origin ?? setting?.origin ?? { file: 'options', line: 0, key: 'acl' };
}

function describe({ message, field, problem }: PolicyError, { origin }: PolicyRule): string {
  return origin === undefined || field === '' ? message : `${field}: ${problem}`;
}

/** `saltbridge: acl: rules:`, and every other option that permits something, as rules of one policy. */
import { allow, grantRules, PolicyError, type PolicyRule, parseRule } from '../../acl/index.ts';
import { ConfigError, type OptionOrigin } from './errors.ts';
import type { OptionKind } from './option-kinds.ts';
import type { MasterConfig, SignalRule } from './options.ts';
import { compilePermissions } from './permissions.ts';
import { toPlain } from './plain-data.ts';
import { isSettings, type Setting } from './settings.ts';
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

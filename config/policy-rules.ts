import { allow, grantRules, type PolicyRule, type PolicySyntax, rulePatternProblems } from '#acl';
import { compileRightTarget } from '#minion-protocol';
import { ConfigError } from './config-error.ts';
import type { MasterConfig } from './options.ts';
import { compilePermissions } from './permissions.ts';
import {
  formWorld,
  noMinions,
  nowhere,
  programLocation,
  type SignalRule,
  toConfigError,
  toSignalError,
} from './policy-schema.ts';
import { isSettings, itemsOf, type Settings } from './settings.ts';
import { userRightsOf } from './user-rights.ts';

/**
 * Returns the rules of a configuration: rules under `saltbridge: acl:`, and rules that result from
 * Salt's options. A rule that results from an option has the name of the option.
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
    // As in Salt, minions may use all environments. Rules that deny can exclude some.
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

/**
 * Returns the `dialect` of a `PolicySyntax`: a text that is equal for policies in which the same
 * patterns and targets are valid. Only the nodegroups affect what is valid, so policies with equal
 * nodegroups get the same text.
 */
export function dialectOf(nodegroups: MasterConfig['nodegroups']): string {
  return JSON.stringify(nodegroups);
}

/** Returns the mistakes in the rules of a configuration. */
export function policyProblems(config: MasterConfig, acl: Settings): readonly ConfigError[] {
  const target: PolicySyntax['target'] = (tgt, tgtType) => {
    compileRightTarget({ tgt, tgtType }, config.nodegroups);
    return noMinions;
  };
  const world = { ...formWorld, target, dialect: dialectOf(config.nodegroups) };
  const rules = acl.get('rules')?.value;
  const signals = itemsOf(acl.get('signals') ?? nowhere);
  const { length } = config.acl.rules;
  return rulesOf(config).flatMap((rule, place) =>
    rulePatternProblems(rule, world).map((cause) => {
      const written = isSettings(rules) ? rules.get(rule.name) : undefined;
      const signal = signals[place - length];
      if (place < length) return toConfigError(cause, written ?? programLocation(rule.name));
      if (signal !== undefined) return toSignalError(cause, signal);
      return new ConfigError('ERR_OPTION_TYPE', nowhere.origin, cause.message, { cause });
    }),
  );
}

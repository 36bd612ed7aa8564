/** Finds who listens to events at a site, and the least signal policy with which they work. */

import { isReservedTag, isSpecificTagGlob } from '#acl';
import { compileGlob } from '#template/python/fnmatch.ts';
import { type ConfigWarning, placeOf } from './config-error.ts';
import type { MasterConfig } from './options.ts';
import { rulesOf } from './policy-rules.ts';
import { moduleNames, pairsOf, type Settings } from './settings.ts';

/** A rule to grant, and who needs it. */
interface PlannedRule {
  /** A glob on tags, for `saltbridge: acl: signals:`. */
  readonly tag: string;
  readonly listeners: readonly Listening[];
}

/** A pattern that gets no rule, or not all of one, with the reason. */
interface UnplannedPattern extends Listening {
  readonly reason: string;
}

/** What is to be granted, and what is not. */
export interface SignalPlan {
  readonly rules: readonly PlannedRule[];
  /** What minions emit, or the master fires, without any rule. */
  readonly needless: readonly Listening[];
  /** Wider than what was granted for it. */
  readonly narrowed: readonly UnplannedPattern[];
  /** No rule can be written. */
  readonly ungranted: readonly UnplannedPattern[];
}

type Verdict =
  | { readonly kind: 'needless' }
  | { readonly kind: 'grant'; readonly tag: string; readonly narrowedBecause?: string }
  | { readonly kind: 'ungranted'; readonly reason: string };

const lifecycleTags: ReadonlySet<string> = new Set(['minion_start', 'minion_ping', '_salt_error']);
const stateResults = 'salt/state_result/';
const maxTagLength = 512;

/** What the master fires, or a minion emits, without a rule: one of each kind. */
const ownTags: readonly string[] = [
  'salt/auth',
  'salt/key',
  'salt/job/20240102030405678000/new',
  'salt/job/20240102030405678000/ret/web1',
  'salt/job/20240102030405678000/prog/web1/0',
  'salt/run/20240102030405678000/ret',
  'salt/wheel/20240102030405678000/ret',
  'salt/minion/web1/start',
  'salt/beacon/web1/load/',
  'salt/cloud/web1/created',
  'salt/presence/change',
  'minion_start',
  'minion/refresh/web1',
  'key',
];

/** @param enginePrefixes begins of tags that engines fire in the master itself */
export function planSignals(
  listening: readonly Listening[],
  enginePrefixes: readonly string[],
): SignalPlan {
  const rules = new Map<string, Listening[]>();
  const plan = {
    needless: [] as Listening[],
    narrowed: [] as UnplannedPattern[],
    ungranted: [] as UnplannedPattern[],
  };
  for (const item of listening) {
    const verdict = judge(item.pattern, enginePrefixes);
    if (verdict.kind === 'needless') {
      plan.needless.push(item);
    } else if (verdict.kind === 'ungranted') {
      plan.ungranted.push({ ...item, reason: verdict.reason });
    } else {
      rules.set(verdict.tag, [...(rules.get(verdict.tag) ?? []), item]);
      const reason = verdict.narrowedBecause;
      if (reason !== undefined) plan.narrowed.push({ ...item, reason });
    }
  }
  return { ...plan, rules: [...rules].map(([tag, listeners]) => ({ tag, listeners })) };
}

function judge(pattern: string, enginePrefixes: readonly string[]): Verdict {
  const begin = literalBegin(pattern);
  const isLiteral = begin === pattern;
  if (isOwn(begin, isLiteral) || enginePrefixes.some((it) => `${begin}/`.startsWith(`${it}/`))) {
    return { kind: 'needless' };
  }
  if (/\{[{%]/.test(pattern)) {
    return { kind: 'ungranted', reason: 'a template decides which tag it is; name the tag' };
  }
  if (!isWritable(pattern)) {
    return { kind: 'ungranted', reason: 'no tag can look so' };
  }
  if (!isSpecificTagGlob(pattern)) {
    return {
      kind: 'ungranted',
      reason: 'it stands for every tag; name those of your own that minions emit',
    };
  }
  return grant(pattern, begin);
}

function grant(pattern: string, begin: string): Verdict {
  if (/^salt\/?\*+$/.test(pattern)) {
    return {
      kind: 'grant',
      tag: `${stateResults}*`,
      narrowedBecause:
        'below salt/ only results of states (fire_event) need a rule; name tags of your own that begin so',
    };
  }
  return begin !== pattern && reachesOwn(pattern)
    ? {
        kind: 'grant',
        tag: pattern,
        narrowedBecause: "the master's own tags that it covers are not granted by it",
      }
    : { kind: 'grant', tag: pattern };
}

/** Whether a pattern also matches tags that no rule can be about. */
function reachesOwn(pattern: string): boolean {
  return ownTags.some(compileGlob(pattern));
}

/** Whether a tag, or all that begin so, are emitted or fired without a rule. */
function isOwn(begin: string, isLiteral: boolean): boolean {
  if (isLiteral) return lifecycleTags.has(begin) || isReservedTag(begin);
  return begin.includes('/') && isReservedTag(begin.replace(/\/$/, ''));
}

function literalBegin(pattern: string): string {
  return pattern.replace(/[*?[].*$/s, '');
}

function isWritable(pattern: string): boolean {
  return pattern.length <= maxTagLength && !/\p{Cc}/u.test(pattern);
}

// Listeners of a salt-master, and their tags.

/** A glob that something listens for. */
export interface Listening {
  /** A glob on tags; `*`: everything. */
  readonly pattern: string;
  /** Who, for instance `reactor` or `engine http_logstash`. */
  readonly listener: string;
  readonly file: string;
  /** 1 is the first; 0 if there is none. */
  readonly line: number;
}

/** Engines that forward every event, or those of their `tags` [salt/engines of 3007.0]. */
export const forwardingEngines: ReadonlySet<string> = new Set([
  'fluent',
  'http_logstash',
  'logentries',
  'logstash',
  'test',
]);

/** Where engines that run in the master fire what they hear elsewhere. */
const firingEngines: ReadonlyMap<string, string> = new Map([
  ['docker_events', 'salt/engines/docker_events'],
  ['ircbot', 'salt/engines/ircbot'],
  ['junos_syslog', 'jnpr/syslog'],
  ['libvirt_events', 'salt/engines/libvirt_events'],
  ['napalm_syslog', 'napalm/syslog'],
  ['redis_sentinel', 'salt/engine/redis_sentinel'],
  ['slack', 'salt/engines/slack'],
  ['slack_bolt', 'salt/engines/slack'],
  ['sqs_events', 'salt/engine/sqs'],
  ['webhook', 'salt/engines/hook'],
]);

/** Prefixes of tags that the master's own engines fire: nobody else needs to be let. */
export function enginePrefixes(settings: Settings): string[] {
  return engineNames(settings).flatMap((name) => firingEngines.get(name) ?? []);
}

/** What Salt's reactor listens for. */
export function reactorPatterns(settings: Settings): Listening[] {
  const { value, origin } = settings.get('reactor') ?? {};
  if (!Array.isArray(value) || origin === undefined) return [];
  return value
    .flatMap((item) => pairsOf(item).map(([pattern]) => pattern))
    .map((pattern) => ({ pattern, listener: 'reactor', file: origin.file, line: origin.line }));
}

export function engineNames(settings: Settings): string[] {
  return moduleNames(settings.get('engines')?.value);
}

/** `- name: {option: …}`, or the older `- name: [{option: …}]`. */
export function engineOption(engines: unknown, engine: string, option: string): unknown {
  const options = [engines]
    .flat()
    .flatMap((item) => pairsOf(item))
    .filter(([name]) => name === engine)
    .flatMap(([, value]) => [value].flat().flatMap((map) => pairsOf(map)));
  return options.find(([name]) => name === option)?.[1];
}

/**
 * One warning where Salt's `reactor:` has tags that need a rule and have none. Tags that the master
 * fires itself, that minions emit without any rule, and that a template decides are no such ones.
 */
export function warnOfReactorTags(config: MasterConfig, settings: Settings): ConfigWarning[] {
  const setting = settings.get('reactor');
  const patterns = reactorPatterns(settings);
  if (setting === undefined || patterns.length === 0) return [];
  const permitted = rulesOf(config).flatMap((rule) =>
    rule.action === 'signal' && rule.effect === 'allow' ? [rule.resource.tag] : [],
  );
  const unheard = planSignals(patterns, enginePrefixes(settings))
    .rules.map(({ tag }) => tag)
    .filter((tag) => !permitted.some((rule) => mayMeet(withoutPlaceholders(rule), tag)));
  if (unheard.length === 0) return [];
  const named = unheard.slice(0, maxNamed).join(', ');
  const more = unheard.length > maxNamed ? ', …' : '';
  const text = `reactor: nobody may emit ${unheard.length} of its tags (${named}${more}); saltbridge migrate check writes rules for them`;
  const { origin } = setting;
  return [{ kind: 'unheard', ...origin, message: `${placeOf(origin)}: ${text}` }];
}

/** Whether some tag may be meant by both; where wildcards stand in both, by what they begin with. */
function mayMeet(rule: string, pattern: string): boolean {
  if (literalPrefix(pattern) === pattern) return compileGlob(rule)(pattern);
  if (literalPrefix(rule) === rule) return compileGlob(pattern)(rule);
  const [begin, other] = [literalPrefix(rule), literalPrefix(pattern)];
  return begin.startsWith(other) || other.startsWith(begin);
}

function literalPrefix(glob: string): string {
  return glob.replace(/[*?[].*$/s, '');
}

function withoutPlaceholders(tag: string): string {
  return tag.replace(/\$\{[^}]*\}/g, '*');
}

// Tags that a reactor listens for and nobody may emit.

const maxNamed = 5;

/** The least signal policy under which a site's listeners go on hearing what minions emit. */

import { isReservedTag, isSpecificTagGlob } from '../../acl/index.ts';
import { compileGlob } from '../../minion-protocol/index.ts';
import type { Settings } from '../../master/config/option-kinds.ts';
import { awaitedPatterns, thoriumPatterns } from './site-files.ts';
import { type MigrationReport, moduleNames, pairsOf, textsOf } from './check-migration.ts';
import type { PlannedReactionRule, UnderivableReaction } from './reaction-plan.ts';

/** A rule to grant, and who needs it. */
export interface PlannedRule {
  /** A glob on tags, for `saltbridge: acl: signals:`. */
  readonly tag: string;
  readonly listeners: readonly Listening[];
}

/** A pattern that gets no rule, or not all of one, with the reason. */
export interface UnplannedPattern extends Listening {
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

// Who listens to events in a salt-master, and for which tags.

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
const forwardingEngines: ReadonlySet<string> = new Set([
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

/** Everything that listens: the reactor, engines, returners of events, Thorium, orchestrations. */
export async function findListeners(settings: Settings): Promise<Listening[]> {
  return [
    ...reactorPatterns(settings),
    ...enginePatterns(settings),
    ...eventReturnPatterns(settings),
    ...(usesThorium(settings) ? await thoriumPatterns(settings) : []),
    ...(await awaitedPatterns(settings)),
  ];
}

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

function enginePatterns(settings: Settings): Listening[] {
  const { value, origin } = settings.get('engines') ?? {};
  if (origin === undefined) return [];
  const { file, line } = origin;
  return engineNames(settings)
    .filter((name) => forwardingEngines.has(name))
    .flatMap((name) => {
      const tags = textsOf(engineOption(value, name, 'tags'));
      const patterns = name === 'http_logstash' && tags.length > 0 ? tags : ['*'];
      return patterns.map((pattern) => ({ pattern, listener: `engine ${name}`, file, line }));
    });
}

/** A returner of events has all of them, or those of its list. */
function eventReturnPatterns(settings: Settings): Listening[] {
  const { value, origin } = settings.get('event_return') ?? {};
  const names = textsOf(value).filter((name) => name !== '');
  if (origin === undefined || names.length === 0) return [];
  const listed = textsOf(settings.get('event_return_whitelist')?.value);
  const patterns = listed.length > 0 ? listed : ['*'];
  const listener = `event_return ${names.join(', ')}`;
  return patterns.map((pattern) => ({ pattern, listener, file: origin.file, line: origin.line }));
}

function usesThorium(settings: Settings): boolean {
  return engineNames(settings).includes('thorium');
}

function engineNames(settings: Settings): string[] {
  return moduleNames(settings.get('engines')?.value);
}

/** `- name: {option: …}`, or the older `- name: [{option: …}]`. */
function engineOption(engines: unknown, engine: string, option: string): unknown {
  const options = [engines]
    .flat()
    .flatMap((item) => pairsOf(item))
    .filter(([name]) => name === engine)
    .flatMap(([, value]) => [value].flat().flatMap((map) => pairsOf(map)));
  return options.find(([name]) => name === option)?.[1];
}

/**
 * The plans of a report as one file for `master.d`: what minions may emit, with a comment for each
 * listener, and what the files of the reactor may call.
 */
export function policyText({
  signals: { rules, needless, narrowed, ungranted },
  reactions,
}: Pick<MigrationReport, 'reactions' | 'signals'>): string {
  const lines = [
    '# What minions may emit so that the listeners of this site go on hearing them. Tags that Salt',
    '# itself emits need no rule. Add "minions: <glob>" to a rule that is not for all minions.',
    ...needless.map((it) => comment(`needs no rule: ${describe(it)}`)),
    ...narrowed.map((it) => comment(`narrowed: ${describe(it)}: ${it.reason}`)),
    ...ungranted.map((it) => comment(`not granted: ${describe(it)}: ${it.reason}`)),
    ...reactions.underivable.map((it) => comment(`not derivable: ${describeReaction(it)}`)),
    'saltbridge:',
    '  acl:',
    rules.length === 0 ? '    signals: []' : '    signals:',
    ...rules.flatMap(({ tag, listeners }) => [
      ...listeners.map((it) => `      ${comment(describe(it))}`),
      // JSON's text is YAML's, whatever the tag holds.
      `      - tag: ${JSON.stringify(tag)}`,
    ]),
    ...(reactions.rules.length === 0 ? [] : ['    rules:']),
    ...reactions.rules.flatMap(ruleLines),
  ];
  return `${lines.join('\n')}\n`;
}

function ruleLines(
  { reference, action, functions, within }: PlannedReactionRule,
  index: number,
): readonly string[] {
  return [
    `      ${JSON.stringify(`reactor ${index + 1}`)}:`,
    `        subject: { service: ${JSON.stringify(`reaction:${reference}`)} }`,
    `        action: ${action}`,
    '        resource:',
    `          fun: ${JSON.stringify(functions)}`,
    ...(within === undefined ? [] : [`          within: ${JSON.stringify(within)}`]),
  ];
}

function describe({ pattern, listener, file, line }: Listening): string {
  return `${JSON.stringify(pattern)} for ${listener} (${file}:${line})`;
}

/** Which file, and why no rule follows from it. */
function describeReaction({ reference, file, reason }: UnderivableReaction): string {
  const place = file === '' || file === reference ? reference : `${reference} (${file})`;
  return `${place}: ${reason}`;
}

/** Whatever it holds stays on its line. */
function comment(text: string): string {
  return `# ${text.replace(/[\p{Cc}\p{Zl}\p{Zp}]/gu, '?')}`;
}

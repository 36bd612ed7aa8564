/** Who listens to events in a salt-master, and for which tags. */
import type { Settings } from '../config/settings.ts';
import { awaitedPatterns, thoriumPatterns } from './formulas.ts';
import { moduleNames, pairsOf, textsOf } from './plain-values.ts';

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

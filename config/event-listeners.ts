/** Listeners of a salt-master, and their tags. */

import { moduleNames, pairsOf, type Settings } from './settings.ts';

/** A glob that something listens for. */
export interface Listening {
  /** A glob on tags; `*`: everything. */
  readonly pattern: string;
  /** Who, for instance `reactor` or `engine http_logstash`. */
  readonly listener: string;
  readonly file: string;
  /** 1 is the first; 0 if there is none. */
  readonly line: number;
  /** Whether this master does not serve the listener. Default: it does. */
  readonly isUnserved?: true;
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

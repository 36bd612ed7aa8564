/**
 * Event listeners in the configuration of a salt-master, such as reactors and engines, and the tags
 * that they match.
 */

import { moduleNames, pairsOf, type Settings } from './settings.ts';

/** A tag glob with its listener. */
export interface Listening {
  /** Glob on tags; `*` matches every tag. */
  readonly pattern: string;
  /** Name of the listener, for example `reactor` or `engine http_logstash`. */
  readonly listener: string;
  readonly file: string;
  /** Line number, starting at 1, or 0 if unknown. */
  readonly line: number;
  /** Whether the listener is one that this master does not support. Set only if true. */
  readonly isUnserved?: true;
}

/**
 * Engines that forward every event, or the events that match their `tags` [salt/engines of 3007.0].
 */
export const forwardingEngines: ReadonlySet<string> = new Set([
  'fluent',
  'http_logstash',
  'logentries',
  'logstash',
  'test',
]);

/**
 * Salt's engines that receive data from elsewhere and emit events, each with the prefix of the tags
 * of these events.
 */
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

/**
 * Returns the tag prefixes that the master's own engines emit. Minions need no permission for them.
 */
export function enginePrefixes(settings: Settings): string[] {
  return engineNames(settings).flatMap((name) => firingEngines.get(name) ?? []);
}

/** Returns the tag globs of Salt's reactor. */
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

/**
 * Returns an option of an engine from `- name: {option: …}` or from the older form `- name:
 * [{option: …}]`.
 */
export function engineOption(engines: unknown, engine: string, option: string): unknown {
  const options = [engines]
    .flat()
    .flatMap((item) => pairsOf(item))
    .filter(([name]) => name === engine)
    .flatMap(([, value]) => [value].flat().flatMap((map) => pairsOf(map)));
  return options.find(([name]) => name === option)?.[1];
}
